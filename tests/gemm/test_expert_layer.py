"""A layer of experts on the emulator, in one kernel and as a chain: float64 says what is right; no findings."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks import experts
from benchmarks.moe.layer import plans
from benchmarks.moe.layer.data import columns_by_one_scale
from benchmarks.moe.layer.plans import Layer
from course import results
from tests.sampling import WHOLE, only_whole
from warplab.emulator import execute
from warplab.hardware.device import architecture_of, present
from warplab.hardware.small_floats import E4M3
from warplab.plan import assembler
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.plan.execution import Execution
from warplab.plan.model import EMULATED_ARCHITECTURE as ARCHITECTURE
from warplab.plan.model import Plan
from warplab.worker.process import Worker

pytestmark = pytest.mark.processes

TOY = Layer("toy", 6, 2, 256, 384)  # two blocks of k, then three
TOP_1 = Layer("toy, one choice", 3, 1, 128, 128)
WIDE = Layer("toy, all experts", 32, 8, 128, 128)
FIVE = Layer("toy, five blocks", 4, 1, 640, 128)
FULL = Layer("toy, full experts", 2, 1, 256, 384)
SMS = 3
NARROW = (64, 64, 1, "two")


def routed(name: str, layer: Layer, tokens: int, rng: np.random.Generator) -> np.ndarray:
    """Scores, tokens x experts."""
    scores = rng.standard_normal((tokens, layer.experts)).astype(np.float32)
    if name == "favourites":  # all tokens go to the same experts, the others have no rows
        scores[:, : layer.k] += 20
    if name == "equal":  # of equal scores that of the lowest index
        scores[...] = 0
    if name == "last":
        scores[:, -layer.k :] += 20
    return scores


def quantised_weights(w: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, scales for blocks of 128 x 128, and what they stand for."""
    e, n, k = w.shape
    scale = (np.abs(w).reshape(e, n // 128, 128, k // 128, 128).max(axis=(2, 4)) / 448).astype(np.float32)
    wide = np.repeat(np.repeat(scale, 128, axis=1), 128, axis=2)
    codes = E4M3.encode(w / wide).astype(np.uint8)
    return codes, scale, E4M3.decode(codes) * wide


def rounded(row: np.ndarray, group: int) -> np.ndarray:
    """A row as its codes say, with a power of two as scale for each group."""
    parts = row.reshape(-1, group)
    most = np.abs(parts).max(axis=1, keepdims=True)
    scale = np.where(most > 0, 2.0 ** np.ceil(np.log2(np.where(most > 0, most, 1) / 448)), 1.0)
    return (E4M3.decode(E4M3.encode(parts / scale).astype(np.uint8)) * scale).ravel()


class Values:
    """Inputs of a layer and what is right in float64."""

    def __init__(self, layer: Layer, tokens: int, routing: str) -> None:
        rng = np.random.default_rng(tokens)
        d, f, e = layer.hidden, layer.inside, layer.experts
        up8, up_scale, self._up = quantised_weights(rng.standard_normal((e, 2 * f, d)) * d**-0.5)
        down8, down_scale, self._down = quantised_weights(rng.standard_normal((e, d, f)) * f**-0.5)
        x = rng.standard_normal((tokens, d)).astype(np.float16)
        x[1:2] = 0  # a row of zeros, if there are two
        scores = routed(routing, layer, tokens, rng)
        self._layer, self._x, self._scores = layer, x, scores
        self.inputs = {"x": x, "scores": scores, "up8": up8, "up_scale": up_scale}
        self.inputs |= {"down8": down8, "down_scale": down_scale}

    def right(self, group: int, half: bool) -> np.ndarray:
        """tokens x d; `group` columns of SwiGLU's results share a scale, which are of float16 numbers if `half`."""
        out = np.zeros(self._x.shape)
        for token, (x, scores) in enumerate(zip(self._x.astype(np.float64), self._scores, strict=True)):
            chosen = np.argsort(-scores, kind="stable")[: self._layer.k]
            share = np.exp(scores[chosen].astype(np.float64) - scores[chosen].max())
            for e, weight in zip(chosen, share / share.sum(), strict=True):
                h = self._up[e] @ rounded(x, 128)
                h = h.astype(np.float16).astype(np.float64) if half else h
                gate, value = np.split(h, 2)
                out[token] += weight * (self._down[e] @ rounded(gate / (1 + np.exp(-gate)) * value, group))
        return out


CASES = [
    (TOY, 1, "drawn"),
    (TOY, 40, "drawn"),
    (TOY, 135, "favourites"),  # two tiles above each other, one of more than 64 rows; pairs of tiles share a scale
    (WIDE, 9, "drawn"),
]
if WHOLE:
    CASES += [(TOY, 40, "equal"), (TOY, 70, "last")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("layer")


@cache
def all_sizes(layer: Layer, folder: Path) -> dict[int, Plan]:
    """The one kernel's plans by number of tokens: it is compiled once for all of them."""
    sizes = sorted({tokens for whose, tokens, _ in CASES if whose is layer})
    return dict(zip(sizes, plans.one_kernel(layer, sizes, ARCHITECTURE, folder, sms=SMS), strict=True))


@cache
def chain(folder: Path) -> Plan:
    return plans.chain(TOY, [12], ARCHITECTURE, folder, (NARROW, NARROW), SMS)[0]


@cache
def wide(layer: Layer, folder: Path) -> dict[int, Plan]:
    """The chain with wide products by number of tokens."""
    sizes = {TOY: [12, 40, 70, 135], WIDE: [9], FIVE: [9], FULL: [530, 531]}[layer]
    return dict(zip(sizes, plans.chain(layer, sizes, ARCHITECTURE, folder, plans.WIDE, SMS), strict=True))


def must_be_right(plan: Plan, values: Values, right: np.ndarray, seed: int) -> Execution:
    """Without findings, in the order of this seed."""
    done = execute(plan, values.inputs, architecture=ARCHITECTURE, seed=seed)
    assert [finding.message for finding in done.findings] == []
    must_be_close(done.outputs["out"], right)
    return done


def must_be_close(out: np.ndarray, right: np.ndarray) -> None:
    """Most rows within what cut sums change; a code on the other side of a rounding moves the whole row."""
    errors = np.sqrt(((out - right) ** 2).mean(axis=1) / (right**2).mean())
    assert np.median(errors) < 0.003 and errors.max() < 0.06, errors


@pytest.mark.parametrize(("layer", "tokens", "routing"), CASES)
def test_one_kernel(layer: Layer, tokens: int, routing: str, folder: Path) -> None:
    values = Values(layer, tokens, routing)
    right = values.right(columns_by_one_scale(tokens), half=False)
    for seed in (1, 2) if WHOLE else (1,):
        must_be_right(all_sizes(layer, folder)[tokens], values, right, seed)


def test_the_one_kernel_can_be_launched_again(folder: Path) -> None:
    """It leaves its counters as it found them: two launches in a row, as in a graph that is replayed."""
    values = Values(TOY, 40, "drawn")
    plan = all_sizes(TOY, folder)[40]
    must_be_right(replace(plan, launches=plan.launches * 2), values, values.right(64, half=False), 1)


def test_three_launches(folder: Path) -> None:
    values = Values(TOP_1, 20, "drawn")
    (plan,) = plans.one_kernel(TOP_1, [20], ARCHITECTURE, folder, launches=3, sms=SMS)
    must_be_right(plan, values, values.right(64, half=False), 1)


def test_chain_with_a_rest_of_columns(folder: Path) -> None:
    """640 columns are more than a warp of the gather takes, and no multiple of what one of combine takes."""
    values = Values(FIVE, 9, "drawn")
    (plan,) = plans.chain(FIVE, [9], ARCHITECTURE, folder, (NARROW, NARROW))
    must_be_right(plan, values, values.right(128, half=True), 1)


@pytest.mark.parametrize("routing", ["drawn", "favourites"])
def test_chain(routing: str, folder: Path) -> None:
    values = Values(TOY, 12, routing)
    must_be_right(chain(folder), values, values.right(128, half=True), 1)


@pytest.mark.parametrize(
    ("layer", "tokens", "routing"),
    [
        pytest.param(TOY, 12, "drawn", marks=only_whole),
        pytest.param(TOY, 40, "favourites", marks=only_whole),
        (TOY, 70, "last"),  # more than 64 rows: both consumers have some
        (TOY, 135, "favourites"),  # two tiles above each other
        (WIDE, 9, "drawn"),  # 72 rows of 32 experts
        (FIVE, 9, "drawn"),  # half a tile's columns are left, and rows are no multiple of four
        (FULL, 530, "last"),  # 18 rows behind two pairs of tiles: 16 go with one, two with the other
        (FULL, 531, "drawn"),  # 3 and 16 rows behind a pair of each expert, whose second begins at an odd row
    ],
)
def test_chain_with_wide_products(layer: Layer, tokens: int, routing: str, folder: Path) -> None:
    """SwiGLU takes float32 sums there, not halves."""
    values = Values(layer, tokens, routing)
    must_be_right(wide(layer, folder)[tokens], values, values.right(128, half=False), 1)


def test_rows_behind_pairs_of_tiles_have_their_own_where_that_costs_few_rounds(folder: Path) -> None:
    """On a whole GPU all tiles of so small a layer are one round; on the few SMs of the test above they are many."""
    values = Values(FULL, 530, "last")
    (plan,) = plans.chain(FULL, [530], ARCHITECTURE, folder, plans.WIDE)
    done = must_be_right(plan, values, values.right(128, half=False), 1)
    # Nine strips of 64 rows: by three tiles of columns in two steps, and by one in three. Eight products of four warps
    assert done.total.tensor_instructions == 9 * (3 * 2 + 1 * 3) * 8 * 4


def test_wide_products_do_not_spill(tmp_path: Path) -> None:
    (plan,) = plans.chain(plans.LAYERS[1], [4096], ARCHITECTURE, tmp_path, plans.WIDE)
    products = [launch for launch in plan.launches if launch.kernel.startswith("gemm")]
    assert len(products) == 2
    for launch in products:
        log = assembler.run(plan.kernels[launch.kernel].ptx[ARCHITECTURE], ARCHITECTURE, 60.0).log
        assert "0 bytes spill stores, 0 bytes spill loads" in log and "serialized" not in log, log
        (static,) = map(int, re.findall(r"(\d+) bytes smem", log))
        assert static + launch.shared_bytes <= 227 * 1024


def test_nothing_spills_and_no_product_waits_for_the_one_before(tmp_path: Path) -> None:
    """In any of the kernels that there are for few, some and many tokens; in `make test` in that for some."""
    for plan in plans.one_kernel(plans.LAYERS[0], [1, 64, 256] if WHOLE else [64], ARCHITECTURE, tmp_path):
        (kernel,) = plan.kernels.values()
        log = assembler.run(kernel.ptx[ARCHITECTURE], ARCHITECTURE, 60.0).log
        assert "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in log and "serialized" not in log, log
        (static,) = map(int, re.findall(r"(\d+) bytes smem", log))
        assert static + plan.launches[0].shared_bytes <= 227 * 1024


def test_a_chain_of_other_kernels_replaces_the_old_ones_record() -> None:
    """SwiGLU behind the product is one kernel, by itself it is another: a table of both would be of no chain."""
    shape = (64, 32, 8, 7168, 2048)
    old = results.Record("layer/chain", "time of a kernel", 1.0, "us", variant="gate, up, SwiGLU", shape=shape)
    new = replace(old, variant="gate and up")
    assert experts.replaced([new], old)
    assert not experts.replaced([new], replace(old, shape=(16, 32, 8, 7168, 2048)))
    assert not experts.replaced([new], replace(old, metric="time"))
    race = replace(old, name="layer/choices", metric="time")
    assert experts.replaced([replace(race, variant="another")], race)


@pytest.mark.gpu
@pytest.mark.parametrize("launches", [1, 3])
@pytest.mark.parametrize("layer", [TOY, TOP_1, WIDE], ids=lambda layer: layer.name)
def test_on_a_gpu(layer: Layer, launches: int, tmp_path: Path) -> None:
    """On all its SMs, three times in a row: what copies see of other blocks' results, only hardware tells."""
    cases = [case for case in CASES if case[0] is layer] + [(layer, 256, "drawn")]
    sizes = sorted({tokens for _, tokens, _ in cases})
    architecture = architecture_of(present())
    made = plans.one_kernel(layer, sizes, architecture, tmp_path, launches)
    with Worker() as worker:
        for tokens, plan in zip(sizes, made, strict=True):
            save(assemble(plan, architecture), tmp_path / "layer.plan")
            for routing in (routing for _, size, routing in cases if size == tokens):
                values = Values(layer, tokens, routing)
                task = {"plan": str(tmp_path / "layer.plan"), "inputs": values.inputs, "runs": 3}
                answer = worker.call("tests.gpu.gpu_targets:execute", timeout=60, **task)
                assert answer["findings"] == []
                right = values.right(columns_by_one_scale(tokens), half=False)
                must_be_close(answer["outputs"]["out"], right)
