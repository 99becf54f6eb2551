"""Chapter 04b: its formula against a simulation, its records, and its exercise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from course.chapters import c04b_transfers as chapter

SOURCE = Path(__file__).resolve().parents[3] / "notebooks" / "source" / "04b_transfers.md"


@pytest.mark.parametrize("stages", [(5.0, 5.0, 5.0), (8.0, 2.0, 4.0), (1.0, 7.0, 3.0), (1.0, 2.0, 9.0)])
@pytest.mark.parametrize("chunks", [1, 2, 7, 32])
def test_the_formula_is_what_a_pipeline_takes(stages: tuple[float, ...], chunks: int) -> None:
    free = [0.0] * len(stages)
    for _ in range(chunks):
        done = 0.0
        for stage, whole in enumerate(stages):
            done = free[stage] = max(done, free[stage]) + whole / chunks
    assert chapter.pipelined(stages, chunks) == pytest.approx(free[-1])


def test_the_records_say_what_the_text_says() -> None:
    found = chapter.records()
    rows = chapter.chunk_rows(found)
    assert all(abs(measured / calculated - 1) < 0.1 for chunks, measured, calculated in rows if chunks <= 16)
    assert rows[-1][1] > rows[-2][1]  # 64 chunks are slower than 32
    assert found.find("both directions", "rate").value == pytest.approx(100e9, rel=0.02)
    assert chapter.rate_of_copy(found, chapter.UP, "pinned", 1 << 28) == pytest.approx(55e9, rel=0.02)
    for name in chapter.STAGES:
        spans = chapter.busy(found, name)
        assert len(spans) == chapter.DRAWN and all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))


def test_the_exercise_is_solved_by_its_solution_only() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    cell = next(c for c in re.findall(r"```{code-cell} ipython3\n(.*?)```", text, re.S) if "def time_with" in c)
    given, solution = re.findall(r"my_chunks = \d+", text)
    said: list[bool] = []
    for answer in (given, solution, "my_chunks = 40"):
        names = {"chapter": chapter, "goal": lambda reached, _: said.append(reached)}
        exec(f"{answer}\n{cell}", names)
    assert said == [False, True, False]
