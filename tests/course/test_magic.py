from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from course import magics, waiting
from tests.autograder.handmade import EMULATOR, make_lab
from tests.autograder.numpy_worker import GOOD, NumPyWorker
from warplab.errors import DeviceError


@dataclass
class Shown:
    """What `display` gives for one output: each update takes its place."""

    outputs: list[Any]

    def update(self, item: Any) -> None:
        self.outputs.append(item)


def test_what_goes_wrong_takes_the_lines_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    make_lab(tmp_path)
    monkeypatch.setenv("WARPLAB_LABS", str(tmp_path / "labs"))
    monkeypatch.setattr(magics, "CHECKOUT", tmp_path)
    monkeypatch.setattr(waiting.display, "display", lambda item, display_id: (shown.append(item), Shown(shown))[1])

    def no_machine(*_: object, **more: object) -> None:
        raise DeviceError("No GPU serves: `doctor` <says> more")

    monkeypatch.setattr(magics, "choose_machine", no_machine)
    magics.submit("90_twice", GOOD)
    assert [repr(shown[0]), shown[1].data] == ["Grading 90_twice ... (0%)", "No GPU serves: `doctor` <says> more"]
    assert isinstance(shown[-1], waiting.display.Pretty)


@pytest.mark.processes
def test_a_cell_is_graded_inline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    lab = make_lab(tmp_path)
    shown: list[Any] = []
    monkeypatch.setenv("WARPLAB_LABS", str(tmp_path / "labs"))
    monkeypatch.setattr(magics, "CHECKOUT", tmp_path)
    monkeypatch.setattr(magics, "ConfinedWorker", lambda machine, own: NumPyWorker(lab))
    monkeypatch.setattr(magics, "_workers", {})
    monkeypatch.setattr(magics, "choose_machine", lambda wanted, needs="", own=False: EMULATOR)
    monkeypatch.setattr(waiting.display, "display", lambda item, display_id: (shown.append(item), Shown(shown))[1])
    magics.submit(" 90_twice ", GOOD)
    kept = tmp_path / "build" / "submissions" / "90_twice" / "submission.py"
    assert kept.read_text() == "# %%submit 90_twice\n" + GOOD
    said = [repr(item) for item in shown[:-1]]
    assert said[:2] == ["Grading 90_twice ... (0%)", "Grading 90_twice: capturing ... (0%)"]
    assert "Grading 90_twice: running on the emulator ... (15%)" in said and len(said) == len(set(said))
    assert '<progress max="1" value="0.15"' in next(item._repr_html_() for item in shown if "15%" in repr(item))
    assert "70 of 70 points" in shown[-1].data
    magics.submit("90_twice", "def twice(:")
    assert "syntax error" in shown[-1].data and "Line 2: " in shown[-1].data  # the magic has the first line
    assert [mark["line"] for mark in shown[-1].metadata["warplab"]["report"]["marks"]] == [2]
    count = len(shown)
    magics.submit("twice", GOOD)
    assert "There is no lab named 'twice': did you mean 90_twice?" in capsys.readouterr().out
    assert len(shown) == count


def test_the_extension_registers_the_magic() -> None:
    registered = {}

    class Shell:
        def register_magic_function(self, function, magic_kind: str, magic_name: str) -> None:
            registered[magic_kind, magic_name] = function

    magics.load_ipython_extension(Shell())
    assert registered == {("cell", "submit"): magics.submit}


def test_an_interrupt_says_that_nothing_was_graded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown: list[Any] = []
    monkeypatch.setattr(magics, "CHECKOUT", tmp_path)
    monkeypatch.setattr(waiting.display, "display", lambda item, display_id: (shown.append(item), Shown(shown))[1])

    def interrupted(*_: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(magics, "choose_machine", interrupted)
    magics.submit("01_axpy", GOOD)
    assert shown[-1].data == "Stopped by you, nothing was graded."
