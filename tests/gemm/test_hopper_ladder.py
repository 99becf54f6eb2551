"""Every rung of the CUDA C++ ladder for Hopper, on the emulator: exact for small whole numbers, and no findings."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from autograder.lab import CHECKOUT
from warplab.plan.assemble import assemble
from warplab.plan.capture import capture
from warplab.plan.model import ArrayArgument, HostCall, Plan, Role
from warplab.simt import execute

FOLDER = CHECKOUT / "solutions" / "08_hopper_hgemm"
RUNGS = sorted(path.stem for path in FOLDER.glob("rung_*.py"))


def plan_of(path: Path, m: int, n: int, k: int) -> Plan:
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    arguments = tuple(
        ArrayArgument(name, "float16", shape, Role.OUTPUT if name == "c" else Role.INPUT)
        for name, shape in shapes.items()
    )
    return capture(path, [HostCall("hgemm", arguments)], ("sm_90a",))[0]


def check(plan: Plan, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    run = execute(plan, {"a": a, "b": b}, seed=m)
    assert not run.findings
    exact = a.astype(np.float64) @ b.astype(np.float64)  # at most 16 k: every sum is exact in float32
    np.testing.assert_array_equal(run.outputs["c"], exact.astype(np.float16))


@pytest.mark.parametrize("rung", RUNGS)
def test_whole_and_ragged_tiles(rung: str) -> None:
    for m, n, k in ((256, 256, 192), (200, 264, 104)):
        check(plan_of(FOLDER / f"{rung}.py", m, n, k), m, n, k)


@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung >= "rung_07"])
def test_blocks_that_stay_take_several_tiles(rung: str, tmp_path: Path) -> None:
    """With two blocks instead of 132, the ring of stages runs through many tiles and several turns."""
    text, changed = re.subn(r"^BLOCKS = 132", "BLOCKS = 2", (FOLDER / f"{rung}.py").read_text(), flags=re.MULTILINE)
    assert changed == 1
    path = tmp_path / f"{rung}.py"
    path.write_text(text)
    check(plan_of(path, 392, 520, 328), 392, 520, 328)


def test_only_the_fall_spills() -> None:
    spills = {}
    for rung in RUNGS:
        kernels = assemble(plan_of(FOLDER / f"{rung}.py", 256, 256, 192), "sm_90a").kernels
        (code,) = (kernel.cubins["sm_90a"] for kernel in kernels.values())
        spills[rung] = code.spill_stores + code.spill_loads
    assert spills.pop("rung_04_one_consumer") > 1000
    assert set(spills.values()) == {0}
