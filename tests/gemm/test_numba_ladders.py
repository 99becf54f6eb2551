"""The Numba rungs of labs 07 and 08 on the emulator: exact for small whole numbers, at any size, and no findings."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from autograder.spec.lab import CHECKOUT
from course.loading import module_of
from tests.sampling import part_of
from warplab.emulator import execute
from warplab.plan.assemble import assemble
from warplab.plan.capture.submission import capture
from warplab.plan.execution import Counters, Execution
from warplab.plan.model import ArrayArgument, HostCall, Plan, Role

pytestmark = pytest.mark.stored

FOLDER = CHECKOUT / "solutions"
MMA = [f"07_tensor_core_hgemm/{path.stem}" for path in sorted((FOLDER / "07_tensor_core_hgemm").glob("*.py"))]
WGMMA = [f"08_hopper_hgemm/{path.stem}" for path in sorted((FOLDER / "08_hopper_hgemm").glob("numba_*.py"))]


Shape = tuple[int, int, int]  # m, n, k


def plans_of(path: Path, *shapes: Shape) -> list[Plan]:
    """A plan for each shape, from one run of the file: Numba compiles for seconds, but once."""
    calls = []
    for m, n, k in shapes:
        sizes = {"a": (m, k), "b": (k, n), "c": (m, n)}
        arguments = (
            ArrayArgument(name, "float16", size, Role.OUTPUT if name == "c" else Role.INPUT)
            for name, size in sizes.items()
        )
        calls.append(HostCall("hgemm", tuple(arguments)))
    return capture(path, calls, ("sm_90a",))


def run(plan: Plan, m: int, n: int, k: int) -> Execution:
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    execution = execute(plan, {"a": a, "b": b}, seed=m)
    assert [finding.message for finding in execution.findings] == []
    exact = a.astype(np.float64) @ b.astype(np.float64)  # at most 16 k: every sum is exact in float32
    np.testing.assert_array_equal(execution.outputs["c"], exact.astype(np.float16))
    return execution


def right_at_any_size(rung: str, *shapes: Shape) -> None:
    """At each of the shapes, of which the first is one of whole tiles; and no register is spilled."""
    plans = plans_of(FOLDER / f"{rung}.py", *shapes)
    whole, *_ = [run(plan, *shape) for plan, shape in zip(plans, shapes, strict=True)]
    m, n, k = shapes[0]
    assert whole.total.tensor_multiply_adds == m * n * k
    for kernel in assemble(plans[0], "sm_90a").kernels.values():
        code = kernel.cubins["sm_90a"]
        assert code.spill_stores == code.spill_loads == code.stack == 0


@pytest.mark.parametrize("rung", part_of(MMA, 3, type))
def test_mma_of_any_size(rung: str) -> None:
    right_at_any_size(rung, (128, 256, 320), (37, 70, 45), (128, 256, 128), (1, 1, 1))


@pytest.mark.parametrize("rung", part_of(WGMMA, 2, type))
def test_wgmma_of_any_size(rung: str) -> None:
    right_at_any_size(rung, (256, 256, 320), (200, 264, 104), (1, 8, 8))


@pytest.mark.parametrize("rung", WGMMA[2:])
def test_blocks_that_stay_take_several_tiles(rung: str, tmp_path: Path) -> None:
    """With two blocks instead of 132, the ring of stages runs through many tiles and several turns."""
    text, changed = re.subn(
        r"^BLOCKS, THREADS = 132", "BLOCKS, THREADS = 2", (FOLDER / f"{rung}.py").read_text(), flags=re.M
    )
    assert changed == 1
    path = tmp_path / "rung.py"
    path.write_text(text)
    run(*plans_of(path, (392, 520, 328)), 392, 520, 328)


def counted(rung: str, *shape: int) -> Counters:
    (plan,) = plans_of(FOLDER / f"{rung}.py", shape)
    return run(plan, *shape).total


def test_swizzling_ends_the_conflicts() -> None:
    """ldmatrix of eight rows in the same banks takes eight wavefronts instead of one."""
    plain, swizzled = (counted(rung, 128, 128, 128) for rung in MMA[1:3])
    assert plain.matrix_load_requests == swizzled.matrix_load_requests
    assert plain.matrix_load_wavefronts == 8 * swizzled.matrix_load_wavefronts
    assert swizzled.shared_load_bank_conflicts == swizzled.shared_store_bank_conflicts == 0


def test_a_cluster_copies_b_once_for_two_blocks() -> None:
    alone, pairs = (counted(rung, 256, 256, 320) for rung in WGMMA[2:])
    assert alone.bulk_load_sectors == 2 * 320 * (256 + 2 * 256) // 32
    assert pairs.bulk_load_sectors == 2 * 320 * (256 + 256) // 32


@pytest.mark.gpu
@pytest.mark.parametrize("rung", [*MMA, *WGMMA])
def test_the_same_file_runs_outside_the_judge(rung: str) -> None:
    import cupy

    path = FOLDER / f"{rung}.py"
    module = module_of(path)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((512, 320), (320, 768)))
    c = cupy.full((512, 768), cupy.nan, np.float16)
    module.hgemm(cupy.asarray(a), cupy.asarray(b), c)
    cupy.cuda.Device().synchronize()
    np.testing.assert_array_equal(c.get(), (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16))
