"""What the notebooks import: guesses, code, times that say where they come from."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from course import lesson as module
from course import waiting
from course.lesson import Lesson, code, load_ipython_extension, passage, reveal, speed, table
from autograder.records.machine import Machine
from autograder.records.status import Executor
from course import results
from course.results import Header, Record

pytestmark = pytest.mark.stored

EMULATOR = Machine(Executor.EMULATOR, "sm_90a", "emulator")
HEADER = Header("NVIDIA H200", "580", {"numpy": "2"}, "abc", "make bench", "2026-01-02T03:04:05+00:00")


@pytest.fixture
def on_emulator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without a GPU, and a folder of results that is still empty."""
    monkeypatch.setattr(module, "choose_machine", lambda wanted, needs="": EMULATOR)
    monkeypatch.setattr(module, "DIRECTORY", tmp_path)
    monkeypatch.setattr(module, "CHECKOUT", tmp_path)
    return tmp_path


def ship(folder: Path, milliseconds: float) -> None:
    where = {"variant": "rung_3_shared_tile", "shape": (4096, 4096, 4096)}
    records = [
        Record("06_tiled_gemm", "time", milliseconds, "ms", interval=(milliseconds, milliseconds), **where),
        Record("06_tiled_gemm", "efficiency", 0.25, "fraction", **where),
    ]
    results.write(folder / "labs.json", HEADER, records)


def test_without_results_there_is_a_sentence_and_no_number(on_emulator: Path) -> None:
    lesson = Lesson("06_tiled_gemm")
    assert "no labs.json" in lesson.source_of_times and "make bench" in lesson.source_of_times
    step = lesson.climb("rung_3_shared_tile")
    assert step.time is None and step.worst <= 1
    assert "no time" in speed(step).data and "ms" not in speed(step).data


def test_a_shipped_time_says_where_it_was_measured(on_emulator: Path) -> None:
    ship(on_emulator, 10.0)
    lesson = Lesson("06_tiled_gemm")
    step = lesson.climb("rung_3_shared_tile")
    assert step.time is not None
    assert step.time.flops == pytest.approx(2 * 4096**3 / 10e-3)
    assert "10 ms" in speed(step).data and "NVIDIA H200 on 2026-01-02" in speed(step).data
    own = on_emulator / "rung_3_shared_tile.py"
    own.write_text(step.text)
    assert lesson.climb(own).time is None, "a reader's own kernel must not get the shipped time of a rung"


def test_counters_a_multiply_add(on_emulator: Path) -> None:
    step = Lesson("06_tiled_gemm").climb("rung_3_shared_tile")
    assert step.per_multiply_add("global_load_sectors") == 4 / 32  # two rows of 64 bytes for 32 of them
    assert step.per_multiply_add("global_load_sectors", "global_load_sectors") == 8 / 32
    assert step.name == "shared tile"


def test_code_shows_the_kernel_with_its_decorator_only(on_emulator: Path) -> None:
    step = Lesson("06_tiled_gemm").climb("rung_3_shared_tile")
    shown = re.sub(r"<[^>]+>", "", code(step).data)
    assert "@cuda.jit\ndef gemm_kernel" in shown and "def tiled_gemm" not in shown and "import" not in shown
    assert "def tiled_gemm" in re.sub(r"<[^>]+>", "", code(step, "tiled_gemm").data)


@pytest.mark.parametrize(
    ("guess", "said"),
    [(None, "No prediction"), (33, "right"), (31, "right"), (66, "2 times what it is"), (0, "0 times")],
)
def test_a_guess_is_compared_with_what_was_counted(guess: float | None, said: str) -> None:
    answer = reveal(guess, 33.0, "sectors", "Counted").text
    assert answer.startswith("**Counted: 33 sectors.**") and said in answer


def test_a_small_count_is_guessed_exactly_or_not() -> None:
    assert "right" in reveal(250, 255, "threads", "Counted").text
    assert "0.98 times" in reveal(250, 255, "threads", "Counted", exactly=True).text
    assert "right" in reveal(255, 255, "threads", "Counted", exactly=True).text


@pytest.mark.parametrize("guess", ["255", "many", (4, 8)])
def test_a_guess_that_is_no_number_is_answered(guess) -> None:
    assert "no number" in reveal(guess, 255, "threads", "Counted").text


def test_a_guess_about_nothing() -> None:
    assert "right" in reveal(0, 0, "conflicts", "Counted").text
    assert "not what it is" in reveal(5, 0, "conflicts", "Counted").text


def test_a_guess_of_what_may_be_about_zero_is_right_within_so_much() -> None:
    assert "right" in reveal(-1, 0.3, "percent", "Counted", within=2).text
    assert "off by 10." in reveal(-3, 7, "percent", "Counted", within=2).text


def test_tables_align_numbers() -> None:
    assert table(["what", "n"], [("a", 1234), ("b", 0.03125), ("c", "text")]).data.splitlines() == [
        "| what | n |",
        "|:---|---:|",
        "| a | 1,234 |",
        "| b | 0.0312 |",
        "| c | text |",
    ]


def test_the_cell_magic_answers_mistakes_in_a_sentence(
    on_emulator: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shown:
        """What `display` gives for one output: an update takes its place."""

        def update(self, shown: Any) -> None:
            print(getattr(shown, "data", shown))

    def display(shown: Any, display_id: bool) -> Shown:
        print(getattr(shown, "data", shown))
        return Shown()

    monkeypatch.setattr(waiting.display, "display", display)
    shell = InteractiveShell()
    load_ipython_extension(shell)
    kernel = (module.solutions_folder() / "06_tiled_gemm" / "rung_3_shared_tile.py").read_text()

    def said(line: str, cell: str) -> str:
        shell.run_cell_magic("rung", line, cell)
        return capsys.readouterr().out

    assert "for example" in said("06_tiled_gemm", kernel)
    assert "no lab named 'nothing'" in said("nothing mine", kernel)
    assert "Line 3" in said("06_tiled_gemm mine", "def tiled_gemm(a, b, c):\n    oops(\n")  # its magic is line 1
    right = said("06_tiled_gemm mine", kernel)
    assert right.startswith("Measuring mine ... (0%)\n") and "its result is right" in right
    assert shell.user_ns["mine"].worst <= 1
    assert "**its result is wrong**" in said("06_tiled_gemm mine", kernel.replace("= total", "= 2 * total"))


def test_a_passage_of_cuda_is_shown_with_its_place(on_emulator: Path) -> None:
    step = Lesson("08_hopper_hgemm").climb("submission")
    shown = re.sub(r"<[^>]*>", "", passage(step, "__device__ void advance", "phase ^= 1").data)
    first, *rest = html.unescape(shown).strip().splitlines()
    number = 1 + step.text.splitlines().index("    __device__ void advance()")
    assert first.endswith(f"08_hopper_hgemm/submission.py, line {number}")
    assert rest[0] == "__device__ void advance()" and rest[-1].strip() == "phase ^= 1;"
    with pytest.raises(ValueError, match="no passage from 'advance' to 'nowhere'"):
        passage(step, "advance", "nowhere")
