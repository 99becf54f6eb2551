from __future__ import annotations

from pathlib import Path

import pytest

from course import magics
from tests.autograder.handmade import EMULATOR, make_lab
from tests.autograder.numpy_worker import GOOD, NumPyWorker


def test_a_cell_is_graded_inline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    display = pytest.importorskip("IPython.display")
    lab = make_lab(tmp_path)
    shown = []
    monkeypatch.setenv("WARPLAB_LABS", str(tmp_path / "labs"))
    monkeypatch.setattr(magics, "CHECKOUT", tmp_path)
    monkeypatch.setattr(magics, "ConfinedWorker", lambda machine, own: NumPyWorker(lab))
    monkeypatch.setattr(magics, "_workers", {})
    monkeypatch.setattr(magics, "choose_machine", lambda wanted, needs="", own=False: EMULATOR)
    monkeypatch.setattr(display, "display", lambda item: shown.append(item.data))
    magics.submit(" 90_twice ", GOOD)
    assert (tmp_path / "build" / "submissions" / "90_twice" / "submission.py").read_text() == GOOD
    assert "70 of 70 points" in shown[0]
    magics.submit("90_twice", "def twice(:")
    assert "syntax error" in shown[1]
    magics.submit("07_none", GOOD)
    assert "There is no lab named '07_none'" in capsys.readouterr().out
    assert len(shown) == 2


def test_the_extension_registers_the_magic() -> None:
    registered = {}

    class Shell:
        def register_magic_function(self, function, magic_kind: str, magic_name: str) -> None:
            registered[magic_kind, magic_name] = function

    magics.load_ipython_extension(Shell())
    assert registered == {("cell", "submit"): magics.submit}
