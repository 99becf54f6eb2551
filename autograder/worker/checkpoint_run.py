"""Trains one step of a small GPT with each plan that is to be carried out, under a census, where PyTorch is installed.

A plan is by now names of operators that exist. It runs in the worker's sandbox all the same: there are no other places
where what a stranger chose is run.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from autograder.records.trained import TrainedStep
from autograder.spec.checkpoints import CheckpointTask
from autograder.spec.lab import load


def carry_out(task: str, seed: int, run: Mapping[str, bytes]) -> dict[str, Any]:
    """What `Trained.from_wire` takes, of plans by case, as `checkpoint_stage.check` gives them.

    `task` is the lab's folder. Weights and tokens are drawn from the seed.
    """
    if importlib.util.find_spec("torch") is None:
        return {"torch": "", "steps": []}
    import torch  # takes a second, and only here is it needed

    from systems.training import gpt, recompute
    from systems.training.step import step

    torch.set_num_threads(1)  # products so small are done before a second thread has woken up
    lab = load(Path(task), CheckpointTask).task.drawn(seed)
    steps = []
    for name, content in run.items():
        sizes = lab.model(lab.case(name)[1].dimensions)
        model, batch = gpt.make(sizes, seed % 2**31), gpt.draw(sizes, seed % 2**31)
        kept = msgspec.json.decode(content, type=list[list[str]])
        plain, full = step(model, *batch), step(model, *batch, lambda names: recompute.whole)
        made = step(model, *batch, lambda names, kept=kept: recompute.selective(kept, names))  # type: ignore[misc]
        counted = made.kept - full.kept, made.peak - full.peak, made.flops - plain.flops
        steps.append(asdict(TrainedStep(name, *counted, made.same_gradients(plain))))
    return {"torch": torch.__version__, "steps": steps}
