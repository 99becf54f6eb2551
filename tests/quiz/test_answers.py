"""Every answer of the bank, for every draw, against a truth that was come by in another way."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from warplab import results
from warplab.hardware import CHIPS, Chip, Math, Roofline
from warplab.hardware.chips import H200
from warplab.hardware.requests import banks_of, sectors_of
from warplab.hardware.small_floats import SmallFloat, Specials
from warplab.network.clusters import Fabric, cluster, nvswitch_node
from warplab.network.collectives import Collective
from warplab.network.schedules.build import ring
from warplab.network.simulation import max_min, simulate
from warplab.plan.limits import limits_of
from warplab.plan.occupancy import occupancy
from warplab.quiz import chapters, load
from warplab.quiz.check import check
from warplab.quiz.draw import every_draw
from warplab.quiz.expression import Value, evaluate
from warplab.quiz.question import Kind, Question
from warplab.show.promotion import Promotion
from warplab.show.waves import place_blocks

QUESTIONS = {question.id: question for name in chapters() for question in load(name).questions}
HOPPER = "sm_90a"
TENSOR = {
    "V100": 64,
    "A100": 256,
    "H100": 512,
}  # fp16 multiply-adds of one tensor core in a cycle, as NVIDIA gives them


def chip(names: Mapping[str, Value]) -> Chip:
    (found,) = [c for c in CHIPS if c.name.startswith(f"{names['chip']} ")]
    return found


def peak(c: Chip, math_kind: Math = Math.FP16_TENSOR) -> float:
    found = c.peak(math_kind)
    assert found is not None
    return found


def ridge(n: Mapping) -> float:
    return Roofline(peak(chip(n)), chip(n).bandwidth).ridge


def most_registers(n: Mapping) -> int:
    """By trying: the most registers with which the calculator still grants this many warps, in blocks of four."""
    return max(r for r in range(8, 256) if occupancy(HOPPER, 128, r).warps >= n["warps"])


def issued(warps: int, chains: int, latency: int = 4) -> float:
    """By playing it through: each chain may start again `latency` cycles after it last did; one start a cycle."""
    ready, started = [0] * (warps * chains), 0
    for cycle in range(1000 * latency):
        for number, time in enumerate(ready):
            if time <= cycle:
                ready[number] = cycle + latency
                started += 1
                break
    return started / (1000 * latency)


def active_lanes(n: Mapping) -> float:
    masks = [[lane < n["k"] for lane in range(32)]] * n["a"] + [[lane >= n["k"] for lane in range(32)]] * n["b"]
    return float(np.sum(masks) / len(masks))


def loop_share(n: Mapping) -> float:
    turns = np.arange(32) % n["m"] + 1
    return float(100 * turns.sum() / (32 * turns.max()))


def classes_present(n: Mapping) -> float:
    """Lane by lane: a chain over how many classes have been seen."""
    seen = np.zeros(n["c"] + 1)
    seen[0] = 1.0
    for _ in range(32):
        new = np.zeros_like(seen)
        for k, p in enumerate(seen):
            new[k] += p * k / n["c"]
            if k < n["c"]:
                new[k + 1] += p * (n["c"] - k) / n["c"]
        seen = new
    return float(seen @ np.arange(n["c"] + 1))


def wave_share(tiles: int, slots: int) -> float:
    """By filling the machine, wave after wave."""
    left, waves = tiles, 0
    while left > 0:
        left, waves = left - slots, waves + 1
    return 100 * tiles / (waves * slots)


def shuffles(n: Mapping) -> int:
    known = [{lane} for lane in range(32)]
    for step in itertools.count(1):
        distance = n["width"] >> step
        known = [known[lane] | known[lane ^ distance] for lane in range(32)]
        if all(len(k) == n["width"] for k in known):
            return step
    raise AssertionError


def lanes(step: int, start: int = 0) -> list[int]:
    return [start + step * lane for lane in range(32)]


def structures(n: Mapping) -> float:
    request = sectors_of(lanes(4 * n["fields"]))
    return 100 * request.bytes_asked / request.bytes_moved


def transposed() -> float:
    """As the emulator counted lab 03's naive kernel."""
    shipped = results.read(results.DIRECTORY / "labs.json")
    loads, stores = (
        shipped.find("03_transpose", metric, variant="rung_1_naive")
        for metric in ("global_load_sectors", "global_store_sectors")
    )
    return (loads.value + stores.value) / (2 * math.prod(loads.shape) * 4 / 32)


def embedding(n: Mapping) -> float:
    row = 2 * n["d"]
    touched = [len({byte // 32 for byte in range(i * row, (i + 1) * row)}) for i in range(64)]
    return 100 * row * 64 / (32 * sum(touched))


def gemm_bytes(side: int) -> tuple[float, float]:
    a, b = np.empty((side, side), np.float16), np.empty((side, side), np.float16)
    return 2.0 * side * a.size, 2.0 * a.nbytes + b.nbytes


def attention(n: Mapping, d: int = 64) -> float:
    q = np.empty((n["s"], d), np.float16)
    scores, values = 2 * n["s"] * n["s"] * d, 2 * n["s"] * d * n["s"]
    return (scores + values) / (4 * q.nbytes)


def decode(n: Mapping, d: int = 128, context: int = 1000) -> float:
    keys = np.empty((context, d), np.float16)
    return n["group"] * (2 * keys.size + 2 * keys.size) / (2 * keys.nbytes)


def ldmatrix_wavefronts(n: Mapping) -> int:
    """The eight rows of the first matrix, their addresses in lanes 0 to 7."""
    rows = [n["row"] * lane if lane < 8 else None for lane in range(32)]
    return len(banks_of(rows, 16, matrix=True).wavefronts)


def handed_over(n: Mapping) -> int:
    return max(r for r in range(24, 241, 8) if 2 * 128 * r + 128 * n["keep"] <= 3 * 128 * 168)


def numbered(n: Mapping) -> int:
    """By starting thread after thread."""
    return [(b, t) for b in range(n["b"] + 1) for t in range(n["d"])].index((n["b"], n["t"]))


def without_element(n: Mapping) -> int:
    starts = range(0, n["n"], n["block"])
    return sum(start + t >= n["n"] for start in starts for t in range(n["block"]))


def parted_lanes(n: Mapping) -> int:
    """Of the one warp in which lanes disagree about the guard."""
    missing = [sum(first + lane >= n["n"] for lane in range(32)) for first in range(0, n["n"], 32)]
    (parted,) = [count for count in missing if 0 < count < 32]
    return parted


def swapped_sectors(n: Mapping) -> int:
    threads = [(x, y) for y in range(32 // n["width"]) for x in range(n["width"])]
    return len(sectors_of([4 * (1024 * x + y) for x, y in threads]).sectors)


def lost_updates(n: Mapping) -> int:
    count = [0] * n["k"]
    read = [count[lane % n["k"]] for lane in range(32)]
    for lane in range(32):
        count[lane % n["k"]] = read[lane] + 1
    return sum(count)


def tree_barriers(n: Mapping) -> int:
    sums, barriers = n["n"], 1  # one after the load
    while sums > 1:
        sums, barriers = sums // 2, barriers + 1
    return barriers


def stalled(n: Mapping) -> float:
    """By adding product after product, each cut to 13 fraction bits below the sum's exponent, until nothing changes."""
    total, before = n["p"], 0.0
    while total != before:
        unit = 2.0 ** (math.floor(math.log2(total)) - 13)
        total, before = total + n["p"] // unit * unit, total
    return total


def half_reached(n: Mapping) -> float:
    """By halving the interval: the size in kB whose rate is half of the link's."""
    low, high = 0.0, 1e12
    for _ in range(100):
        size = (low + high) / 2
        rate = size / (n["alpha"] * 1e-6 + size / (n["rate"] * 1e9))
        low, high = (size, high) if rate < n["rate"] * 1e9 / 2 else (low, size)
    return low / 1000


def port_bytes(collective: Collective, ranks: int, size: float) -> float:
    """What a ring sends through the busiest port, counted by the simulator."""
    return float(simulate(ring(collective, ranks), nvswitch_node(ranks), size).link_bytes.max())


def held_back(n: Mapping) -> float:
    flows = [0, *range(n["n"])]
    links = [1, *[0] * n["n"]]
    capacity = np.array([n["rate"], n["narrow"]], float)
    return float(max_min(capacity, np.array(links), np.array(flows), np.ones(len(flows)), n["n"])[-1])


def crossing(n: Mapping) -> float:
    taper = Fabric(nodes_per_leaf=n["nodes"], oversubscription=n["taper"])
    return 100 * cluster(2 * n["nodes"], 2, fabric=taper).rate(0, 2 * n["nodes"]) / 50e9


TRUTH: dict[str, Callable[[Mapping], float]] = {
    "01-own-number": numbered,
    "01-idle": without_element,
    "01-guard-lanes": parted_lanes,
    "01-waves": lambda n: max(one.end for one in place_blocks([1.0] * n["blocks"], H200.sms, n["places"])),
    "01-lane-of": lambda n: [(x, y) for y in range(2) for x in range(n["width"])].index((n["x"], 1)),
    "01-swapped": swapped_sectors,
    "01-copies": lambda n: sum(np.empty(256, np.float32).nbytes for _ in range(n["blocks"])) / 1024,
    "01-tree-barriers": tree_barriers,
    "01-ballot": lambda n: sum(lane % n["m"] == 0 for lane in range(n["lane"])),
    "01-lost": lost_updates,
    "02-peak": lambda n: peak(chip(n), Math.FP32) / 1e12,
    "02-partitions": lambda n: max(len(range(p, -(-n["threads"] // 32), 4)) for p in range(4)),
    "02-register-file": lambda n: chip(n).sms * chip(n).register_file_per_sm / 1024 / 1024,
    "02-registers-a-thread": most_registers,
    "02-chains": lambda n: 100 * issued(n["warps"], n["chains"]),
    "02-half-width": lambda n: {"V100": 2, "A100": 2, "H100": 1, "H200": 1}[n["chip"]],
    "02-tensor-ratio": lambda n: peak(chip(n)) / peak(chip(n), Math.FP32),
    "02-tensor-core-rate": lambda n: TENSOR[n["chip"]],
    "02-bytes-a-cycle": lambda n: chip(n).bandwidth / chip(n).boost_clock / chip(n).sms,
    "02-energy": lambda n: chip(n).tdp / (peak(chip(n)) / 1e12),
    "03-two-ways": active_lanes,
    "03-longest-loop": loop_share,
    "03-classes": classes_present,
    "03-occupancy-registers": lambda n: occupancy(HOPPER, n["threads"], n["registers"]).blocks,
    "03-occupancy-shared": lambda n: occupancy(HOPPER, n["threads"], 16, n["kib"] * 1024).blocks,
    "03-warps-of-odd-blocks": lambda n: 100 * occupancy(HOPPER, n["threads"], 16).fraction,
    "03-little": lambda n: n["tb"] * n["ns"] / 1000,
    "03-loads-in-flight": lambda n: (
        H200.sms * limits_of(HOPPER).warps * 32 * n["loads"] * n["size"] / (n["ns"] * 1e-9) / 1e12
    ),
    "03-last-wave": lambda n: wave_share(n["blocks"], 132 * n["resident"]),
    "03-butterfly": shuffles,
    "04-stride": lambda n: len(sectors_of(lanes(4 * n["stride"])).sectors),
    "04-offset": lambda n: len({b // 32 for b in range(n["offset"], n["offset"] + 32 * n["size"])}),
    "04-structures": structures,
    "04-pitch": lambda n: len(banks_of(lanes(4 * n["pitch"])).wavefronts),
    "04-doubles": lambda n: len(banks_of(lanes(8 * n["stride"]), 8).wavefronts),
    "04-vector-requests": lambda n: len(range(0, n["millions"] << 20, 32 * n["width"])) / 1024,
    "04-naive-transpose": lambda n: transposed(),
    "04-l2-square": lambda n: math.isqrt(chip(n).l2 // 4),
    "04-copy-time": lambda n: 1e6 * Roofline(1, chip(n).bandwidth).floor_seconds(0, 2 * n["mib"] * 1024 * 1024),
    "04-gather": lambda n: 4800 * 4 / sectors_of([4096 * 7 * lane for lane in range(32)]).bytes_moved * 32,
    "05-axpy": lambda n: 2 / sum(np.dtype(f"float{n['bits']}").itemsize for _ in ("x", "y", "y again")),
    "05-ridge": ridge,
    "05-attainable": lambda n: Roofline(67e12, 4.8e12).attainable(n["intensity"]) / 1e12,
    "05-square": lambda n: np.divide(*gemm_bytes(n["n"])),
    "05-batch": ridge,
    "05-decode": decode,
    "05-prefill": attention,
    "05-softmax-passes": lambda n: len([*range(n["reads"]), "write"]) / len(["read", "write"]),
    "05-layernorm": lambda n: 1e6 * Roofline(1, 4.8e12).floor_seconds(0, 2 * 2.0 * n["rows"] * n["columns"]),
    "05-fusion": lambda n: len(["read", "write"] * n["k"]) / len(["read", "write"]),
    "05-share": lambda n: 100 * Roofline(1, n["tb"] * 1e12).floor_seconds(0, 3 * 4 * 2**28) * 1e3 / n["ms"],
    "05-two-roofs": lambda n: min(Roofline(65, 6).attainable(n["i2"]), Roofline(65, 4.3).attainable(n["i1"])),
    "05-embedding": embedding,
    "06-stages": lambda n: n["stages"] * sum(np.empty((s, n["depth"]), "f2").nbytes for s in (n["p"], n["q"])) / 1024,
    "06-register-tile": lambda n: sum(1 for _ in range(n["r"] + n["c"])) / np.ones((n["r"], n["c"])).sum(),
    "06-wave": lambda n: wave_share(len(range(0, n["side"], 128)) * len(range(0, n["side"], 256)), 132),
    "07-mma-work": lambda n: 2 * np.ones((n["m"], n["k"])).sum() * n["n"],
    "07-fragment": lambda n: np.empty((16, 16), np.float16).nbytes / (32 * 4),
    "07-issue-rate": lambda n: 16 * 8 * n["k"] / TENSOR["H100"],
    "07-ldmatrix": ldmatrix_wavefronts,
    "07-half-sums": lambda n: (n["k"] - 1) * float(np.finfo(np.float16).eps) / 2,
    "08-expect": lambda n: sum(np.empty((side, n["k"]), np.float16).nbytes for side in (n["m"], n["n"])),
    "08-accumulators": lambda n: np.empty((64, n["n"]), np.float32).nbytes / 4 / 128,
    "08-setmaxnreg": handed_over,
    "08-multicast": lambda n: 100 * (n["size"] * n["m"] + n["n"]) / (n["size"] * (n["m"] + n["n"])),
    "09-largest": lambda n: SmallFloat("drawn", n["e"], n["f"], Specials.ONE_NAN).magnitudes.max(),
    "09-stall": stalled,
    "09-share": lambda n: 100 * (1 / Promotion(64, 1, n["k"], n["i"]).busy - 1),
    "09-registers": lambda n: 2 * np.empty((64, n["n"]), np.float32).nbytes / 4 / 128,
    "09-tokens": lambda n: Roofline(peak(chip(n), Math.FP8_TENSOR), chip(n).bandwidth).ridge / 2,
    "09-overhead": lambda n: (n["bits"] * 128 + n["scale"] * (128 // n["block"])) / 128,
    "11-half-size": half_reached,
    "11-ring-port": lambda n: 1e3 * port_bytes(Collective.ALL_REDUCE, n["n"], n["size"] * 1e9) / (n["rate"] * 1e9),
    "11-fair": held_back,
    "11-taper": crossing,
}


def tiled_reads(p: int, q: int, e: int, depth: int = 8) -> float:
    return 2 * p * q * depth / (np.empty((p, depth, e), "u1").nbytes + np.empty((depth, q, e), "u1").nbytes)


def product_intensity(m: int, n: int, k: int, b: int) -> float:
    matrices = [np.empty((*shape, b), "u1") for shape in ((m, k), (k, n), (m, n))]
    return 2 * m * n * k / sum(matrix.nbytes for matrix in matrices)


def worst_rounding(f: float) -> float:
    """By rounding many numbers of one binade, the half-way ones among them."""
    x = 1 + np.arange(2 ** (f + 1) * 8) / (2 ** (f + 1) * 8)
    return float(np.abs(np.rint(x * 2**f) / 2**f / x - 1).max())


FORMULAS: dict[str, Callable[..., float]] = {
    "02-peak-formula": lambda s, t, f, c: sum(2 * t * f * c for _ in range(s)),
    "03-ilp-formula": lambda w, i, l: issued(w, i, l),  # noqa: E741
    "04-padded-bytes": lambda r, c: np.empty((r, c + 1), np.float32).nbytes,
    "05-gemm-formula": product_intensity,
    "06-tile-intensity": tiled_reads,
    "09-rounding": worst_rounding,
    "11-bus": lambda s, t, n: port_bytes(Collective.ALL_GATHER, int(n), s) / t,
}


@pytest.mark.parametrize("question", [q for q in QUESTIONS.values() if q.kind is Kind.NUMBER], ids=lambda q: q.id)
def test_every_number_for_every_draw(question: Question) -> None:
    for drawn in every_draw(question):
        truth = float(TRUTH[question.id](drawn.names))
        assert drawn.answer == pytest.approx(truth, rel=max(question.tolerance, 1e-9)), dict(drawn.names)
        assert check(drawn, f"{drawn.answer!r}").right
        assert check(drawn, f"{truth!r} {question.unit}").right


@pytest.mark.parametrize("question", [q for q in QUESTIONS.values() if q.kind is Kind.FORMULA], ids=lambda q: q.id)
def test_every_formula(question: Question) -> None:
    assert question.variables is not None
    for values in itertools.product(*question.variables.values()):
        names = dict(zip(question.variables, values, strict=True))
        assert evaluate(question.answer, names) == pytest.approx(FORMULAS[question.id](**names), rel=0.01), names
    (drawn,) = every_draw(question)
    assert check(drawn, question.answer).right


def test_no_question_is_left_out() -> None:
    numbers = {q.id for q in QUESTIONS.values() if q.kind is Kind.NUMBER}
    formulas = {q.id for q in QUESTIONS.values() if q.kind is Kind.FORMULA}
    assert TRUTH.keys() == numbers and FORMULAS.keys() == formulas


@pytest.mark.parametrize("question", [q for q in QUESTIONS.values() if q.traps], ids=lambda q: q.id)
def test_traps_catch_and_never_catch_the_right_answer(question: Question) -> None:
    caught = set()
    for drawn in every_draw(question):
        for value, says in drawn.traps:
            verdict = check(drawn, repr(value))
            assert verdict.right or verdict.message == says
            caught.add(not verdict.right)
    assert True in caught


def test_choices_have_one_right_statement_wherever_it_is() -> None:
    places = set()
    for question in QUESTIONS.values():
        if question.kind is Kind.CHOICE:
            for drawn in every_draw(question):
                verdicts = [check(drawn, place) for place in range(len(drawn.options))]
                assert [v.right for v in verdicts].index(True) == drawn.answer and sum(v.right for v in verdicts) == 1
                places.add(drawn.answer)
    assert len(places) > 2, "the right statement is not always at the same place"


def test_swizzled_tile() -> None:
    """04-swizzle: rows and columns of word 32 r + (c ^ r)."""
    for fixed in range(32):
        row = banks_of([4 * (32 * fixed + (c ^ fixed)) for c in range(32)])
        column = banks_of([4 * (32 * r + (fixed ^ r)) for r in range(32)])
        assert len(row.wavefronts) == len(column.wavefronts) == 1


def test_broadcasts() -> None:
    """04-broadcast: one address for all lanes."""
    assert len(sectors_of([64] * 32).sectors) == len(banks_of([64] * 32).wavefronts) == 1


def test_how_many_there_are() -> None:
    assert {name[:2]: len(load(name).questions) >= 12 for name in chapters() if name < "06"} == dict.fromkeys(
        ("01", "02", "03", "04", "05"), True
    )
    assert {name[:2] for name in chapters()} >= {"06", "07", "08", "11"}
