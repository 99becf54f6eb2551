"""The microscope's page of a submission, for its author."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from autograder.spec.inputs import generate
from autograder.spec.lab import Lab, load_lab
from warplab.plan.archive import loads
from warplab.plan.model import Plan

if TYPE_CHECKING:
    from warplab.emulator.profiling.microscope import Page


def page(plan: bytes, task: str, seed: int) -> str:
    """The HTML for the plan, in the bytes of its file, of the profile case of the lab in the folder `task`.

    Raises PlanError for a plan that leaves what the emulator supports, ValueError for one without a launch."""
    return page_of(loads(plan), load_lab(Path(task)).drawn(seed), seed).text


def page_of(plan: Plan, drawn: Lab, seed: int) -> Page:
    """The page of the largest launch. `drawn` has the sizes that the seed drew, and is the lab of the plan."""
    from warplab.emulator.profiling.profile import profile  # it takes longer to import than a short answer takes

    launches = plan.launches
    largest = max(range(len(launches)), key=lambda n: prod(launches[n].grid) * prod(launches[n].block))
    inputs = dict(generate(np, drawn.task, drawn.task.profile, seed))
    return profile(plan, inputs, launch=largest, architecture=drawn.emulated).microscope()
