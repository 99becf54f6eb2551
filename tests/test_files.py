from __future__ import annotations

import ast
import os
import stat
from pathlib import Path

import pytest

from warplab.files import write_whole

ROOT = Path(__file__).resolve().parent.parent
# These write where nobody else reads meanwhile, a folder that goes with what made it, or to the kernel (cgroup).
PRIVATE = {
    "autograder/classroom/one.py",
    "autograder/doctor.py",
    "autograder/platforms/in_container.py",
    "warplab/own_kernels/child.py",
    "warplab/own_kernels/run.py",
    "warplab/plan/assembler.py",
    "warplab/plan/capture/child.py",
    "warplab/plan/capture/escape_probe.py",
    "warplab/plan/disassembler.py",
    "warplab/sandbox/cgroup.py",
    "warplab/sandbox/self_test.py",
    "systems/peer/loading.py",
    "systems/search/emulated.py",
}


def test_a_file_is_made_with_its_folder_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    write_whole(path, "é\r\n")
    assert path.read_bytes() == b"\xc3\xa9\r\n"
    write_whole(path, b"\xff")
    assert path.read_bytes() == b"\xff"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, "old")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, "new")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\ud800")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_an_error_names_the_file_that_was_to_be_written(tmp_path: Path) -> None:
    """Not the temporary one, nor none, as a full disc does."""
    resource = pytest.importorskip("resource")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError) as caught:
        write_whole(tmp_path / "folder", "text")
    assert caught.value.filename == str(tmp_path / "folder")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(OSError) as caught:
            write_whole(tmp_path / "file", "x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(tmp_path / "file") and not (tmp_path / "file").exists()


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_permissions_are_those_of_any_new_file(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask


@pytest.mark.pages
def test_what_somebody_finds_is_written_whole() -> None:
    plain = {("write_text",), ("write_bytes",), ("nbformat", "write")}
    found = set()
    for path in (
        path
        for folder in ("warplab", "systems", "autograder", "course", "scripts")
        for path in (ROOT / folder).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                of = (node.func.value.id,) if isinstance(node.func.value, ast.Name) else ()
                if {(node.func.attr,), (*of, node.func.attr)} & plain:
                    found.add(str(path.relative_to(ROOT)))
    assert found == PRIVATE
