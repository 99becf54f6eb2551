"""Reports made by hand, with hostile text in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autograder.records.outcome import FirstWrong
from autograder.records.report import (
    BudgetResult,
    CaseResult,
    KernelFigures,
    PartResult,
    Profile,
    Report,
    Resemblance,
    SimilarRung,
)
from autograder.records.status import Executor, Part, Status
from autograder.records.text import clean, clean_source
from tests.autograder.handmade import measurement
from warplab.plan.execution import Counters, Finding, FindingKind, Writer

SCRIPT = "<script>alert(1)</script>"
EVIL = f"{SCRIPT}\x1b[2J\u202e[red]"
SOURCE = f"""\
from numba import cuda  # {EVIL}
x = load[i * 32]
s = tile[i]
"""
RESEMBLANCE = Resemblance(
    "Its counters are most like those of rung 1.",
    (SimilarRung("rung_1_naive", "one thread an element", 0.12, 0.3),),
    SimilarRung("rung_2_shared_tile", "a tile", None, 1.2),
    "the roofline",
    "NVIDIA H200",
)


def report(**more) -> Report:
    finding = Finding(FindingKind.RACE, clean(f"two warps met {EVIL}"), "k", 3, (0, 0, 0), (1, 0, 0), "tile", (3,), 7)
    wrong = FirstWrong("out", (3,), np.nan, 1.0, 0.0, writer=Writer("k", 3, (0, 0, 0), (1, 0, 0)))
    case = CaseResult("ragged", Status.WRONG_ANSWER, clean(EVIL), clean(f"cause {EVIL}"), 3, 9, np.inf, wrong)
    budget = BudgetResult("global_load_sectors", "l1tex__t_sectors", 4096, 128.0, "Read neighbours.")
    lines = {
        2: Counters(global_load_requests=4, global_load_sectors=128, global_load_ideal_sectors=16),
        3: Counters(shared_load_requests=4, shared_load_wavefronts=4),
    }
    parts = (
        PartResult(Part.CORRECTNESS, Status.WRONG_ANSWER, 0, 30, "1 of 2 cases failed", "section 1", cases=(case,)),
        PartResult(Part.SAFETY, Status.RACE, 0, 20, clean(EVIL), findings=(finding,)),
        PartResult(Part.TRAFFIC, Status.OVER_BUDGET, 0, 20, "too much", budgets=(budget,)),
        PartResult(Part.EFFICIENCY, Status.NOT_MEASURED, 0, 30, "Needs a GPU."),
    )
    values = {
        "lab": "90_twice",
        "title": "Twice",
        "submission": clean(EVIL),
        "status": Status.WRONG_ANSWER,
        "message": clean(EVIL),
        "parts": parts,
        "full_score": 100.0,
        "device": Executor.EMULATOR,
        "hardware": "emulator",
        "versions": {"python": "3.11"},
        "kernels": (KernelFigures("k<1>", 1, 32, 8, 1024, 0.5),),
        "profile": Profile("profile", Counters(), lines),
        "source": clean_source(SOURCE),
        **more,
    }
    return Report(**values)


def measured(flops: float) -> Report:
    timing = measurement(work={"copy": 2e9, "fp32_fma": flops})
    base = report()
    part = PartResult(Part.EFFICIENCY, Status.PARTIAL, 15, 30, "half", measurement=timing)
    return replace(base, parts=(*base.parts[:3], part), device=Executor.GPU)
