"""Draws the pictures of docs/profiling.md, most of them of the transpose lab: `python -m benchmarks.profile_figures`.

Needs no GPU: everything in them is the emulator's.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from autograder.own_work import capture_submission
from autograder.spec.inputs import generate
from autograder.spec.lab import find_lab, solutions_folder
from benchmarks.figures import IMAGES
from benchmarks.gemm.ladder import plan_of
from course.figures.access import access
from course.figures.profile_table import profile_table
from course.figures.snapshot import snapshot
from course.figures.timeline import masks, timeline
from warplab.emulator import Profile, profile
from warplab.figures.source import source
from warplab.plan.capture.submission import capture
from warplab.plan.model import ArrayArgument, HostCall, Role

ARCHITECTURE = "sm_90a"
LAB = "03_transpose"
TURNED = "tile[x, r]"  # the read of a column of the tile
DIVERGENT = Path(__file__).with_name("emulator_kernels.py")
THREADS = 64


def transpose_profile(rung: str) -> Profile:
    """The profile of a rung of the transpose lab on the lab's profile case."""
    lab = find_lab(LAB)
    case = lab.task.profile
    path = solutions_folder() / LAB / f"{rung}.py"
    plan = capture_submission(lab, path, (case,), 0, ARCHITECTURE).plans[case.name]
    values = generate(np, lab.task, case, 0)
    inputs = {name: values[name] for name in plan.arguments(Role.INPUT)}
    return profile(plan, inputs, block=(1, 1, 0), architecture=ARCHITECTURE)


def divergent_profile() -> Profile:
    """The profile of a loop that each lane leaves after a number of turns of its own."""
    array = ArrayArgument("steps", "int64", (THREADS,), Role.OUTPUT)
    (plan,) = capture(DIVERGENT, [HostCall("collatz", (array,))], (ARCHITECTURE,))
    return profile(plan, {})


def hopper_profile() -> Profile:
    """The profile of a block of a product with tensor copies and wgmma: eight steps along k through its ring."""
    m, n, k = 128, 256, 512
    rng = np.random.default_rng(3)
    inputs = {name: rng.integers(-2, 3, shape).astype(np.float16) for name, shape in (("a", (m, k)), ("b", (k, n)))}
    path = solutions_folder() / "08_hopper_hgemm" / "numba_2_producer.py"
    return profile(plan_of(path, m, n, k, ARCHITECTURE), inputs, architecture=ARCHITECTURE)


def main() -> None:
    """Write docs/images/profile_*.png."""
    tile, padded = transpose_profile("rung_2_shared_tile"), transpose_profile("rung_3_padded")
    reads = [p.access(line_of(p.plan.source, TURNED), warp=3, index=0) for p in (tile, padded)]
    model = tile.timeline(modelled=True)
    loop = divergent_profile().timeline()
    product = hopper_profile().timeline(modelled=True)
    pictures = {
        "table": profile_table(tile.table(), title="A transpose through an unpadded tile"),
        "source": source(tile.plan.source, tile.execution.lines, title="The same, line by line"),
        "banks": access(reads[0], title="tile[x, r]: a column of a tile of 32 x 32"),
        "banks_padded": access(reads[1], title="The same in a tile of 32 x 33"),
        "order": timeline(tile.timeline(), title="Tile of 32 x 32, in the emulator's order"),
        "model": timeline(model, end=model.end, title="Tile of 32 x 32, in the model"),
        "model_padded": timeline(
            padded.timeline(modelled=True), end=model.end, title="Tile of 32 x 33, in the model, on the same axis"
        ),
        "moment": snapshot(model, 3 * model.end // 4, tile.plan.source),
        "flights": timeline(
            product, title="A warp that copies, and two warpgroups that multiply, on Hopper, in the model"
        ),
        "masks": masks(loop, 0, last=160, title="Collatz sequences: each lane leaves the loop when it has reached 1"),
    }
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        picture.savefig(IMAGES / f"profile_{name}.png", dpi=110)


def line_of(text: str, fragment: str) -> int:
    """The last line of a text that holds a fragment, from 1."""
    return max(number for number, line in enumerate(text.splitlines(), start=1) if fragment in line)


if __name__ == "__main__":
    main()
