"""The reports on the site are those of the sources at hand, and are not made twice."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from website import reports


def test_reports_are_made_anew_when_what_they_depend_on_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, codes, graded, digest = tmp_path / "index.html", [1, 0, 0, 0, 1, 0], [], ["a"]

    def run(command: list[str], **_: object) -> SimpleNamespace:
        graded.append(command[1:])
        page.write_text("reports")
        return SimpleNamespace(returncode=codes[len(graded) - 1])

    monkeypatch.setattr(reports, "REPORTS", page)
    monkeypatch.setattr(reports, "_OF", tmp_path / "site.digest")
    monkeypatch.setattr(reports, "digest_of", lambda folders: digest[0])
    monkeypatch.setattr(subprocess, "run", run)
    assert reports.main() == 1, "a reference without full marks fails the site"
    assert reports.main() == 0 and len(graded) == 2, "and is graded again"
    assert reports.main() == 0 and len(graded) == 2
    digest[0] = "b"
    assert reports.main() == 0 and len(graded) == 3
    page.unlink()
    assert reports.main() == 0 and len(graded) == 4
    digest[0] = "c"
    assert reports.main() == 1
    digest[0] = "b"
    assert reports.main() == 0 and len(graded) == 6, "the page that the failure left is not kept"
    assert set(map(tuple, graded)) == {("-m", "autograder", "reference")}
