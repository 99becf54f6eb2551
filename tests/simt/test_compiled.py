"""Compiled code is used again exactly as long as what it was compiled from has not changed."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warplab
from warplab.simt import compiled

PACKAGE = Path(warplab.__file__).parent
PRINT_FOLDER = "from warplab.simt import compiled; print(compiled.folder().name)"


def folder_of(package: Path) -> str:
    """The name of the folder that a copy of this project keeps its compiled parts in."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    run = subprocess.run(
        [sys.executable, "-c", PRINT_FOLDER], cwd=package.parent, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another checkout of the project's package."""
    place = tmp_path_factory.mktemp("checkout") / "warplab"
    shutil.copytree(PACKAGE, place, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def test_another_checkout_of_the_same_sources_shares_what_is_compiled(copy: Path) -> None:
    assert folder_of(copy) == compiled.folder().name


@pytest.mark.parametrize(
    "file", ["simt/report/findings.py", "simt/lowering/lowering.py", "simt/executor.py", "simt/machine.py"]
)
def test_a_changed_sentence_on_the_hosts_side_recompiles_nothing(copy: Path, file: str) -> None:
    before = (copy / file).read_text()
    try:
        (copy / file).write_text(before + "\n# another sentence\n")
        assert folder_of(copy) == compiled.folder().name
    finally:
        (copy / file).write_text(before)


@pytest.mark.parametrize("room", ["", "state", "alu", "memory", "warp", "tensor", "asynchronous"])
def test_changed_compiled_code_is_compiled_anew(copy: Path, room: str) -> None:
    file = sorted((copy / "simt" / "core" / room).glob("[a-z]*.py"))[0]
    before = file.read_text()
    try:
        file.write_text(before + "\n_ANOTHER = 1\n")
        assert folder_of(copy) != compiled.folder().name
    finally:
        file.write_text(before)


def test_the_digest_covers_whatever_compiled_code_imports() -> None:
    """A helper outside the core would be compiled in, and its change would go unnoticed."""
    for path in (PACKAGE / "simt" / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "warplab":
                assert node.module.startswith("warplab.simt.core"), f"{path}: {node.module}"


def test_where_nothing_can_be_kept_it_runs_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WARPLAB_CACHE", str(tmp_path / "file" / "below"))
    compiled.folder.cache_clear()
    try:
        compiled.compile_parts()  # tries nothing
        assert not compiled.is_kept(compiled.Piece.WGMMA)
        function = compiled._function(compiled.Piece.WGMMA)  # the smallest
        assert np.uint64(function.address) > 0
    finally:
        compiled.folder.cache_clear()
