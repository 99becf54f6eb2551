"""Every answer of the bank, for every draw, against a truth that was come by in another way."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from course import results
from course.chapters.c10_experts import Model, chain
from course.figures.experts import Groups
from course.figures.promotion import Promotion
from course.figures.tile_order import Product
from course.figures.waves import place_blocks
from course.quiz import chapters, load
from course.quiz.check import check
from course.quiz.draw import every_draw
from course.quiz.expression import Value, evaluate
from course.quiz.question import Kind, Question
from systems.network.clusters import Fabric, cluster, nvswitch_node
from systems.network.collectives import Collective
from systems.network.schedules.build import halving_doubling, ring
from systems.network.simulation import max_min, simulate
from systems.parallel import rooflines, timeline
from systems.parallel.layout import MIXED, Job, Layout, Schedule
from systems.parallel.machines import DGX_H100
from systems.parallel.memory import memory
from systems.parallel.shapes import gpt
from systems.training.formula import layer_bytes, model_bytes
from systems.training.sizes import Sizes
from warplab.hardware import CHIPS, Chip, Math, Roofline
from warplab.hardware.chips import H200
from warplab.hardware.fragments import mma
from warplab.hardware.requests import banks_of, sectors_of
from warplab.hardware.small_floats import SmallFloat, Specials
from warplab.plan.limits import limits_of
from warplab.plan.occupancy import occupancy

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


def half_bandwidth(n: Mapping[str, Value]) -> float:
    """The size at which the achieved rate is half of the link's, by bisection."""
    low, high = 0.0, 1e12
    for _ in range(200):
        size = (low + high) / 2
        achieved = size / (n["latency"] * 1e-6 + size / (n["rate"] * 1e9))
        low, high = (size, high) if achieved < n["rate"] * 1e9 / 2 else (low, size)
    return low / 1e3


def chunks_in_turns(n: Mapping[str, Value]) -> float:
    """Chunks that go through three stages, each of which does one at a time."""
    free = [0.0] * 3
    for _ in range(n["n"]):
        done = 0.0
        for stage, whole in enumerate((n["up"], n["work"], n["down"])):
            done = free[stage] = max(done, free[stage]) + whole / n["n"]
    return free[-1]


def launched(n: Mapping[str, Value], host: float) -> float:
    """Microseconds until the last of so many kernels ends, if the host queues one every `host` microseconds."""
    many, queued, end = 100 * n["k"], 0.0, 0.0
    for _ in range(many):
        queued += host
        end = max(end, queued) + n["run"] + (0 if host else n["start"])
    return end


def peak(c: Chip, math_kind: Math = Math.FP16_TENSOR) -> float:
    found = c.peak(math_kind)
    assert found is not None
    return found


def ridge(n: Mapping) -> float:
    return Roofline(peak(chip(n)), chip(n).bandwidth).ridge


def most_registers(n: Mapping) -> int:
    """By trying: the most registers with which the calculator still grants this many warps, in blocks of four."""
    return max(r for r in range(8, 256) if occupancy(HOPPER, 128, r).warps >= n["warps"])


def padded_to_the_fullest(n: Mapping) -> float:
    """Counted for one routing whose fullest expert has so many times the average: the others share the rest."""
    average = n["rows"] // n["experts"]
    counts = [0] * n["experts"]
    counts[0] = n["times"] * average
    for row in range(n["rows"] - counts[0]):
        counts[1 + row % (n["experts"] - 1)] += 1
    return 100 * sum(counts) / Groups(tuple(counts), tile=1).to_the_fullest


def first_of_arithmetic(n: Mapping) -> float:
    """By trying: the first number of tokens whose products are computed no faster than the weights are read."""
    c, bytes_of_an_expert = chip(n), 1e6
    for tokens in range(1, 100_000):
        flops = 2 * tokens * n["k"] * bytes_of_an_expert
        if flops / peak(c, Math.FP8_TENSOR) >= n["experts"] * bytes_of_an_expert / c.bandwidth:
            return tokens
    raise AssertionError("never")


def occupied(n: Mapping) -> float:
    """The mean number of nodes with an expert, over all ways to place `k` of them one by one (a chain of states)."""
    states = np.zeros(n["nodes"] + 1)
    states[0] = 1
    used = np.arange(n["nodes"] + 1)
    for _ in range(n["k"]):
        new = states * (n["nodes"] - used) / n["nodes"]
        states = states * used / n["nodes"] + np.concatenate([[0], new[:-1]])
    return float(states @ used)


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


def pieces(first: int, size: int) -> list[int]:
    """The bytes that a memory read 64 at a time moves for `size` bytes from `first` on."""
    return [
        byte for piece in {b // 64 for b in range(first, first + size)} for byte in range(64 * piece, 64 * piece + 64)
    ]


def embedding(n: Mapping) -> float:
    row = 2 * n["d"]
    return 100 * row * 64 / sum(len(pieces(i * row, row)) for i in range(64))


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


def row_of(depth: int) -> list[int | None]:
    """Lanes on neighbouring float16 elements; the others are idle."""
    return [2 * lane if lane < depth else None for lane in range(32)]


def groups_pending(n: Mapping) -> int:
    """The most groups that may be on their way when the oldest of those committed must be done."""
    committed = list(range(n["stages"] - 1))
    return max(pending for pending in range(n["stages"]) if committed[: len(committed) - pending][:1] == [0])


def stages_that_fit(m: int, n: int, k: int) -> int:
    stage = sum(np.empty((side, k), np.float16).nbytes for side in (m, n))
    return sum(1 for _ in range(stage, limits_of(HOPPER).block_shared + 1, stage))


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


def states(n: Mapping[str, Value]) -> float:
    """By the planner, for a GPT and scaled to the number of parameters asked for."""
    model = gpt("any", 4, 1024, 8, 1024)
    found = memory(Job(model, int(n["n"]), 128, MIXED), Layout(data=int(n["n"]), zero=int(n["stage"])))
    return (found.total - found.activations) / model.parameters * n["billions"]


def hidden_tokens(n: Mapping[str, Value]) -> float:
    """By the planner's bound at the H100's peak, scaled to the peak asked for, over very many replicas."""
    machine = replace(DGX_H100, across=n["nic"] * 1e9)
    found = rooflines.data_tokens(machine, Layout(data=2**16, tensor=8, pipeline=int(n["m"]) // 8))
    return found * n["tflops"] * 1e12 / machine.peak(Math.BF16_TENSOR)


def tensor_bytes(n: Mapping[str, Value]) -> float:
    """What a port sends in four ring all-reduces that are carried out."""
    return 4 * port_bytes(Collective.ALL_REDUCE, int(n["t"]), 2.0 * n["s"] * n["h"]) / 1e6


def share_waiting(n: Mapping[str, Value]) -> float:
    """By running the schedule."""
    p, m, v = int(n["p"]), int(n["m"]), int(n["v"])
    cells = timeline.run(timeline.orders(Schedule.ONE_F_ONE_B, p, m, v), 1, 1, 1, v)
    return 100 * timeline.idle(cells, 0) / max(cell.end for cell in cells)


def kept_first(n: Mapping[str, Value]) -> float:
    """By running the schedule and counting what GPU 0 holds."""
    p = int(n["p"])
    cells = timeline.run(timeline.orders(Schedule.ONE_F_ONE_B, p, 3 * p), 1, 1, 1)
    return timeline.held(cells, 0) * n["layers"] / p * n["mb"] / 1000


def nodes_hit(n: Mapping[str, Value]) -> float:
    """Over all ways to choose, for a number of nodes that can be gone through, else by drawing."""
    k, nodes = int(n["k"]), int(n["n"])
    if nodes**k <= 70_000:
        return float(np.mean([len(set(way)) for way in itertools.product(range(nodes), repeat=k)]))
    drawn = np.sort(np.random.default_rng(0).integers(0, nodes, (200_000, k)), axis=1)
    return float(np.mean(1 + (np.diff(drawn, axis=1) > 0).sum(1)))


def trained(n: Mapping, **more: int) -> Sizes:
    """A GPT in 16 bits of the drawn sizes, with heads of 128."""
    sizes = {"layers": 1, "vocabulary": 1000, "sequence": 1024, "batch": 1, **more}
    return Sizes(width=n["h"], heads=n["h"] // 128, value_bytes=2, **sizes)


def run_again(n: Mapping) -> float:
    """By adding up the FLOP of every product of a block: of a token, 2 m n for a matrix, and attention's two."""
    h, s = n["h"], n["s"]
    matrices = [2 * h * 3 * h, 2 * h * h, 2 * h * 4 * h, 2 * 4 * h * h]
    attention = 2 * (2 * s * h)
    step = 3 * sum(matrices) + attention + 2.5 * attention
    return 100 * (sum(matrices[:-1]) + attention) / step


def hidden_from(n: Mapping) -> float:
    """By trying: the first width whose products take as long as the sending."""
    return next(h for h in range(1, 200_000) if 24 * h * h / (n["tflops"] * 1e12) >= 32 * h / (n["link"] * 1e9))


def ring_seconds(kind: Collective, n: Mapping) -> float:
    """Simulated, on the node with as many GPUs."""
    return simulate(ring(kind, n["n"]), nvswitch_node(n["n"]), n["size"] * 1e6).seconds


def first_gap(n: Mapping) -> float:
    """16-exact-sums: the least whole number whose successor, rounded to p bits, is itself."""

    def rounded(whole: int) -> int:
        step = 1 << max(0, whole.bit_length() - n["p"])
        return round(whole / step) * step  # to even, as formats do

    return float(
        next(whole for whole in (2**e + d for e in range(2, 30) for d in (-1, 0, 1)) if rounded(whole + 1) <= whole)
    )


PAGE = np.empty((4, 2048), np.float16).nbytes  # of notebook 15: four rows of a model 2,048 wide


def hillis_steele(n: Mapping[str, Value]) -> int:
    """By scanning so many ones, and counting."""
    sums, step, additions = [1] * n["n"], 1, 0
    while step < n["n"]:
        additions += n["n"] - step
        sums = [s + sums[i - step] if i >= step else s for i, s in enumerate(sums)]
        step *= 2
    assert sums == list(range(1, n["n"] + 1))
    return additions


def idle_share(n: Mapping[str, Value]) -> float:
    """By placing the blocks one by one."""
    placed = place_blocks([1.0] * n["blocks"], n["sms"])
    return 100 * (1 - n["blocks"] / (n["sms"] * max(block.end for block in placed)))


TRUTH: dict[str, Callable[[Mapping], float]] = {
    "00-neighbours": lambda n: len(sectors_of(lanes(n["size"]), n["size"]).sectors),
    "00-offset": lambda n: len(sectors_of(lanes(4, n["offset"])).sectors),
    "00-stride": lambda n: len(sectors_of(lanes(4 * n["stride"])).sectors),
    "00-share": lambda n: 100 * 32 * 4 / sectors_of(lanes(4 * n["stride"])).bytes_moved,
    "00-least-time": lambda n: 1e6 * Roofline(1, chip(n).bandwidth).floor_seconds(0, 3 * 4 * 2 ** n["power"]),
    "00-limit": lambda n: (
        1 / Roofline(peak(chip(n), Math.FP32), chip(n).bandwidth).attainable(2 / 12) * peak(chip(n), Math.FP32)
    ),
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
    "02-chains": lambda n: 100 * issued(n["warps"], n["chains"], n["latency"]),
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
    "03b-core": lambda n: n["lines"] * 64 / (n["latency"] * 1e-9) / 1e9,
    "03b-sm": lambda n: np.interp(n["rate"] * 1e6, [0, 1e4 / (n["latency"] * 1e-9)], [0, 1e4]),
    "03b-break-even": lambda n: next(
        w for w in range(10**6) if n["launch"] * 1e-6 + w * 1e3 / (n["gpu"] * 1e9) <= w * 1e3 / (n["core"] * 1e9)
    ),
    "04b-copy": lambda n: 1e6 * (n["latency"] * 1e-6 + n["size"] * 1e3 / (n["rate"] * 1e9)),
    "04b-half": half_bandwidth,
    "04b-pipeline": chunks_in_turns,
    "04b-graph": lambda n: launched(n, n["host"]) / launched(n, 0),
    "04b-slices": lambda n: sum(n["slice"] for _ in range(int(n["k"]))),
    "04-gather": lambda n: 4800 * n["size"] / len(pieces(4096 * 7, n["size"])),
    "05b-tree": lambda n: len([n["threads"] >> k for k in range(n["threads"].bit_length())]),
    "05b-additions": hillis_steele,
    "05b-private": lambda n: sum(1 for _ in range(n["blocks"]) for _ in range(0, 256, 32)),
    "05b-compaction": lambda n: np.divide(*(4 * reads + 4 * n["percent"] / 100 for reads in (2, 1))),
    "05b-halo": lambda n: np.ones([n["b"] + 2 * n["r"]] * 3).size / np.ones([n["b"]] * 3).size,
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
    "06-half-sectors": lambda n: 32 * len(sectors_of(row_of(n["depth"]), 2).sectors) / (2 * n["depth"]),
    "06-sums": lambda n: np.empty((n["p"], n["q"]), np.float32).nbytes / 4 / n["threads"],
    "07-mma-work": lambda n: 2 * np.ones((16, n["k"])).sum() * 8,
    "07-fragment": lambda n: mma(n["name"].lower(), "f16", n["k"]).registers_a_lane,
    "07-pending": groups_pending,
    "07-warp-tile": lambda n: 2 * n["m"] * n["n"] / sum(np.empty(side, np.float16).nbytes for side in (n["m"], n["n"])),
    "07-issue-rate": lambda n: 16 * 8 * n["k"] / TENSOR["H100"],
    "07-ldmatrix": ldmatrix_wavefronts,
    "07-half-sums": lambda n: (n["k"] - 1) * float(np.finfo(np.float16).eps) / 2,
    "08-expect": lambda n: sum(np.empty((side, n["k"]), np.float16).nbytes for side in (n["m"], n["n"])),
    "08-accumulators": lambda n: np.empty((64, n["n"]), np.float32).nbytes / 4 / 128,
    "08-setmaxnreg": handed_over,
    "08-stages": lambda n: stages_that_fit(n["m"], n["n"], n["k"]),
    "08-stride": lambda n: len(range(0, 8 * n["span"], 16)),
    "08-wave-bytes": lambda n: Product(10**9, 256 * 128, n["k"], blocks=128).bytes(n["rows"], 128 // n["rows"]) / 1e6,
    "08-multicast": lambda n: 100 * (n["size"] * n["m"] + n["n"]) / (n["size"] * (n["m"] + n["n"])),
    "09-largest": lambda n: SmallFloat("drawn", n["e"], n["f"], Specials.ONE_NAN).magnitudes.max(),
    "09-stall": stalled,
    "09-share": lambda n: 100 * (1 / Promotion(64, 1, n["k"], n["i"]).busy - 1),
    "09-registers": lambda n: 2 * np.empty((64, n["n"]), np.float32).nbytes / 4 / 128,
    "09-tokens": lambda n: Roofline(peak(chip(n), Math.FP8_TENSOR), chip(n).bandwidth).ridge / 2,
    "09b-bytes": lambda n: np.divide(*(2 * 4 * n["n"] * many for many in (n["n"], n["d"]))),
    "09b-shrink": lambda n: n["l"] * math.exp(n["m"] - (n["m"] + math.log(n["factor"]))) + 1,
    "09b-tiles": lambda n: int(np.tri(n["rows"], dtype=int).sum()),
    "09b-cache": lambda n: np.empty((2, n["heads"] // n["group"], 128), np.float16).nbytes / 1024,
    "09-overhead": lambda n: (n["bits"] * 128 + n["scale"] * (128 // n["block"])) / 128,
    "10-rows": lambda n: np.mean([n["tokens"] / n["experts"] for _ in range(n["k"])]) * n["k"],
    "10-tiles": lambda n: Groups((n["rows"],) * n["experts"], n["tile"]).on_tiles / (n["rows"] * n["experts"]),
    "10-batch": padded_to_the_fullest,
    "10-weights": lambda n: (
        sum(np.empty(s, np.uint8).nbytes for s in [(n["f"], n["d"])] * 2 + [(n["d"], n["f"])]) / 1e6
    ),
    "10-bound": first_of_arithmetic,
    "10-nodes": occupied,
    "10-zeros": lambda n: n["experts"] * (-n["tokens"] % n["step"]),
    "10-flop-backward": lambda n: 2e-9 * sum(op for _, op, _ in chain(Model("", 1, 1, n["d"], n["f"]), 1, n["rows"])),
    "11-half-size": half_reached,
    "11-ring-port": lambda n: 1e3 * port_bytes(Collective.ALL_REDUCE, n["n"], n["size"] * 1e9) / (n["rate"] * 1e9),
    "11-fair": held_back,
    "11-taper": crossing,
    "13-states": states,
    "13-hide": hidden_tokens,
    "13-tensor-bytes": tensor_bytes,
    "13-bubble": share_waiting,
    "13-held": kept_first,
    "13-nodes": nodes_hit,
    "14-layer": lambda n: sum(layer_bytes(trained(n, sequence=n["s"], batch=n["b"])).values()) / 1e6,
    "14-scores": lambda n: n["a"] * sum(n["s"] ** 2 * np.dtype(t).itemsize for t in ("f2", "f2", "u1")) / 1e6,
    "14-loss": lambda n: (
        100
        * (sizes := model_bytes(trained(n, layers=n["layers"], vocabulary=n["v"])))["loss"]
        / sum(size for name, size in sizes.items() if name not in ("norm", "head", "embedding"))
    ),
    "14-again": run_again,
    "14-segments": lambda n: min(n["n"] / k + k for k in range(1, n["n"] + 1)),
    "14-offload": hidden_from,
    "14-scales": lambda n: (
        100 * (np.empty(n["block"], "u1").nbytes + np.empty(1, "f4").nbytes) / np.empty(n["block"], "f2").nbytes
    ),
    "16-exact-sums": first_gap,
    "16-workspace": lambda n: int(
        np.prod(np.array([4, n["rows"], n["columns"], n["parts"]], np.uint32), dtype=np.uint32)
    ),
    "16-host-clock": lambda n: (
        sum(n["launch"] + n["faster"] * n["device"] for _ in range(9))
        / sum(n["launch"] + n["device"] for _ in range(9))
    ),
    "16-geometric": lambda n: statistics.geometric_mean([n["up"]] * n["small"] + [n["down"]] * n["large"]),
    "16-by-time": lambda n: (
        1 / statistics.fmean([1 / n["up"], 1 / n["down"]], [n["small"] * n["us"], n["large"] * n["ms"] * 1e3])
    ),
    "16-chance": lambda n: sum(
        math.comb(n["n"] - before, n["k"]) / math.comb(n["n"], n["k"]) for before in range(n["n"] - n["k"] + 1)
    ),
    "16-seeds": lambda n: 100 * math.prod([n["p"] / 100] * n["n"]),
    "17-columns": lambda n: 100 * np.empty((n["sets"], 128, n["n"]), np.float32).nbytes / 2**18,
    "17-lanes": lambda n: [*range(0, 128, 32), *range(0, 128, 32)][n["warp"]],
    "17-pair": lambda n: sum(np.empty((rows // 2, 64), np.float16).nbytes for rows in (256, n["n"])),
    "17-bytes": lambda n: sum(np.empty((n["rows"], 4096 // per), np.uint8).nbytes for per in (2, 16)) / 1024,
    "15-floor": lambda n: 1e3 * np.empty(1, np.float16).nbytes * n["billions"] * 1e9 / (n["rate"] * 1e12),
    "15-gaps": lambda n: 100 * sum(n["gap"] * 1e-6 for _ in range(n["layers"] * n["kernels"])) / (n["floor"] * 1e-3),
    "15-tail": idle_share,
    "15-flight": lambda n: n["rate"] * 1e12 / n["sms"] * n["latency"] * 1e-9 / PAGE,
    "15-late-news": lambda n: 1e6 * sum(PAGE / (n["rate"] * 1e12) for _ in range(n["flight"] * n["sms"])),
    "15-cover": lambda n: 1e6 * sum(PAGE / (n["rate"] * 1e12 / n["sms"]) for _ in range(n["slots"])),
    "15-slots": lambda n: len(range((227 - n["other"]) * 1024)[:: np.empty((4, n["width"]), "f2").nbytes][1:]),
    "12-two-points": lambda n: np.polyfit([n["small"] * 1e3, n["large"] * 1e6], [n["near"], n["far"]], 1)[1],
    "12-bus-time": lambda n: 1e3 * port_bytes(Collective.ALL_REDUCE, n["n"], n["size"] * 1e9) / (n["rate"] * 1e9),
    "12-all-reduce-halves": lambda n: (
        n["time"] * ring_seconds(Collective.ALL_REDUCE, n) / ring_seconds(Collective.REDUCE_SCATTER, n)
    ),
    "12-one-shot-port": lambda n: np.full((n["n"] - 1, n["size"] * 250, 8), 1e-3).sum(),
    "12-ll-share": lambda n: n["rate"] * np.repeat([1, 0], [n["data"], n["flag"]]).mean(),
    "12-steps": lambda n: (
        ring(Collective.ALL_REDUCE, n["n"]).steps / halving_doubling(Collective.ALL_REDUCE, n["n"]).steps
    ),
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


def equally_fast(a: float, b: float, c: float, d: float) -> float:
    """By halving the interval in which the first protocol stops being the faster one."""
    low, high = 0.0, 1e12
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if a + middle / b < c + middle / d else (low, middle)
    return low


FORMULAS: dict[str, Callable[..., float]] = {
    "02-peak-formula": lambda s, t, f, c: sum(2 * t * f * c for _ in range(s)),
    "03-ilp-formula": lambda w, i, l: issued(w, i, l),  # noqa: E741
    "04-padded-bytes": lambda r, c: np.empty((r, c + 1), np.float32).nbytes,
    "05-gemm-formula": product_intensity,
    "06-tile-intensity": tiled_reads,
    "09-rounding": worst_rounding,
    "10-between": lambda rows, f: np.empty((2, int(rows), 2 * int(f)), np.float16).nbytes,
    "11-bus": lambda s, t, n: port_bytes(Collective.ALL_GATHER, int(n), s) / t,
    "13-mfu": lambda r, f, c: (1 / c) / (1 / (r * f)),
    "12-crossing": equally_fast,
    "16-cost": lambda t, c, j, s: sum(c + j for _ in range(int(t))) / s,
    "15-step": lambda b, r, k, g, s: sum(g + s + b / k / r for _ in range(int(k))),
    "14-gated": lambda e, h, f: sum(e * width for width in (h, *[f] * 4)),  # x; gate, silu, up; what down takes
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
    few = {name for name in chapters() if name < "06" and len(load(name).questions) < 6}
    assert not few, "a chapter ends with six questions or more"
    assert {name[:2] for name in chapters()} >= {"06", "07", "08", "11", "13"}


ANSWER_IS_GIVEN = {"05-fusion", "05-decode"}  # that it is just this number is what there is to find


@pytest.mark.parametrize("name", ["00", "01b", "02", "03", "04", "05"])
def test_no_draw_answers_itself(name: str) -> None:
    """A share is neither nothing nor all of it, and the answer is not one of the numbers that the question gives."""
    for question in load(name).questions:
        if question.kind is not Kind.NUMBER or question.id in ANSWER_IS_GIVEN:
            continue
        for drawn in every_draw(question):
            answer = float(drawn.answer)
            assert question.unit != "%" or 0 < answer < 99.5, (question.id, dict(drawn.names))
            given = [float(drawn.names[name]) for name in question.draw if name != "chip"]
            if question.tolerance:  # a small count may well be a number of the question
                assert answer not in [pytest.approx(v, rel=0.005) for v in given], (question.id, dict(drawn.names))
