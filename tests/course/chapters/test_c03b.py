"""Chapter 03b: what its text says of its records, the count of lanes, and its exercise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from course.chapters import c03b_beside_a_cpu as chapter

SOURCE = Path(__file__).resolve().parents[3] / "notebooks" / "source" / "03b_beside_a_cpu.md"


def test_the_text_says_what_was_measured() -> None:
    found = chapter.records()
    core, sm = (dict(chapter.chased(found, by)) for by in (chapter.CORE, chapter.SM))
    assert 3.5 < chapter.latency(found, chapter.SM) / chapter.latency(found, chapter.CORE) < 4.5
    assert core[16] / core[8] > 1.7 and core[32] / core[16] < 1.6  # more help less from 16 on
    assert sm[1024] / sm[512] > 1.9  # gains up to the last point
    assert chapter.rate(found, "axpy", "GPU") / chapter.rate(found, "axpy", "Numba, all cores") > 20
    tuned = [("NumPy (BLAS), all cores", "three loops, all cores"), ("GPU, cuBLAS", "GPU, a thread per element")]
    gains = [chapter.rate(found, "product", a) / chapter.rate(found, "product", b) for a, b in tuned]
    assert gains == [pytest.approx(8, rel=0.05), pytest.approx(9, rel=0.05)]


@pytest.mark.parametrize(
    ("assembly", "lanes"),
    [
        ("vfmadd231ps %zmm0, %zmm1, %zmm2\nvmovss %xmm0, (%rax)", 16),
        ("vmulps (%rax), %ymm0, %ymm1", 8),
        ("vmovss (%rax), %xmm0\nvaddps %xmm1, %xmm2, %xmm3", 4),
        ("vmulss (%rax), %xmm0, %xmm1", 1),
        ("fmla v0.4s, v1.4s, v2.4s", 0),
    ],
)
def test_lanes_are_those_of_the_widest_register_that_computes(assembly: str, lanes: int) -> None:
    assert chapter.lanes_of(assembly) == lanes


def test_the_exercise_is_solved_by_its_solution_only() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    cell = next(c for c in re.findall(r"```{code-cell} ipython3\n(.*?)```", text, re.S) if "wanted = " in c)
    said: list[bool] = []
    for answer in re.findall(r"my_threads = \d+", text):
        names = {"chapter": chapter, "found": chapter.records(), "goal": lambda reached, _: said.append(bool(reached))}
        exec(f"{answer}\n{cell}", names)
    assert said == [False, True]
