"""Compiled code is used again exactly as long as what it was compiled from has not changed."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from ctypes import CFUNCTYPE, c_int64
from dataclasses import dataclass
from pathlib import Path

import pytest
from numba import types

import warplab
from warplab.emulator import compilation, compiled

pytestmark = pytest.mark.processes

PACKAGE = Path(warplab.__file__).parent
# Starting takes a second each time: one process prints the folders of what lies there now whenever it is asked.
TELL_FOLDERS = """
import sys
from warplab.emulator import compiled, core_digest
for _ in sys.stdin:
    core_digest.forget()
    compiled.folder.cache_clear()
    compiled.source_digest.cache_clear()
    print(*(compiled.folder(part).name for part in compiled.Piece), flush=True)
"""
HERE = {part: compiled.folder(part).name for part in compiled.Piece}


@dataclass(frozen=True)
class Checkout:
    """A copy of the project's package, and a process that has imported it."""

    package: Path
    process: subprocess.Popen[str]

    def folders(self) -> dict[compiled.Piece, str]:
        """The names of the folders that it keeps its compiled parts in."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("tell\n")
        self.process.stdin.flush()
        return dict(zip(compiled.Piece, self.process.stdout.readline().split(), strict=True))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    """Another checkout of the project's package."""
    place = tmp_path_factory.mktemp("checkout") / "warplab"
    shutil.copytree(PACKAGE, place, ignore=shutil.ignore_patterns("__pycache__"))
    with subprocess.Popen(
        [sys.executable, "-c", TELL_FOLDERS],
        cwd=place.parent,
        env={**os.environ, "PYTHONPATH": str(place.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Checkout(place, process)


def test_another_checkout_of_the_same_sources_shares_what_is_compiled(copy: Checkout) -> None:
    assert copy.folders() == HERE


@pytest.mark.parametrize(
    "file",
    [
        "emulator/report/findings.py",
        "emulator/lowering/lowering.py",
        "emulator/executor.py",
        "emulator/machine.py",
        "emulator/compiled.py",
    ],
)
def test_a_changed_sentence_on_the_hosts_side_recompiles_nothing(copy: Checkout, file: str) -> None:
    changed = copy.package / file
    before = changed.read_text()
    try:
        changed.write_text(before + "\n# another sentence\n")
        assert copy.folders() == HERE
    finally:
        changed.write_text(before)


LOOP, ARITHMETIC, BULK, WGMMA = (compiled.Piece(name) for name in ("loop", "arithmetic", "bulk", "wgmma"))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("interpreter.py", {LOOP}),
        ("alu/floats.py", {ARITHMETIC}),
        ("alu/call.py", {LOOP}),
        ("memory/shared_access.py", {LOOP}),
        ("memory/shadow.py", {LOOP, BULK, WGMMA}),
        ("asynchronous/tensor_copies.py", {BULK}),
        ("tensor/wgmma.py", {WGMMA}),
        ("state/layout.py", {LOOP, ARITHMETIC, BULK, WGMMA}),
        ("../compilation.py", {LOOP, ARITHMETIC, BULK, WGMMA}),
        ("../lean_numba.py", {LOOP, ARITHMETIC, BULK, WGMMA}),
    ],
)
def test_a_changed_line_recompiles_the_parts_that_it_is_in(copy: Checkout, name: str, parts: set) -> None:
    file = copy.package / "emulator" / "core" / name
    before = file.read_text()
    try:
        file.write_text(before + "\n_ANOTHER = 1\n")
        assert {part for part, folder in copy.folders().items() if folder != HERE[part]} == parts
    finally:
        file.write_text(before)


def test_the_digests_begin_at_the_functions_that_are_compiled() -> None:
    functions = {compiled.Piece(part): function.__module__ for part, (function, _) in compilation.SOURCES.items()}
    assert functions == compiled.ROOTS


def test_the_digest_covers_whatever_compiled_code_imports() -> None:
    """A helper outside the core would be compiled in, and its change would go unnoticed."""
    for path in (PACKAGE / "emulator" / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "warplab":
                assert node.module.startswith("warplab.emulator.core"), f"{path}: {node.module}"


def run_products(x):
    """A part that takes no time to compile; it has the name of one, for these are compiled whole."""
    return x + 1


def call(address: int) -> int:
    return CFUNCTYPE(c_int64, c_int64)(address)(41)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[compiled.Piece]:
    """A part of the emulator that is something short, in a cache that the test chooses."""
    monkeypatch.setitem(compilation.SOURCES, "wgmma", (run_products, types.int64(types.int64)))
    compiled.folder.cache_clear()
    yield compiled.Piece.WGMMA
    compiled.folder.cache_clear()


def test_what_is_kept_is_loaded_and_what_is_damaged_is_compiled_anew(
    short: compiled.Piece, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPLAB_CACHE", str(tmp_path))
    assert not compiled.is_kept(short)
    assert call(compiled._function(short).address) == 42 and compiled.is_kept(short)
    load = compiled._loaded.__wrapped__
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "_function", None)
        assert call(load(short)) == 42
    (kept,) = tmp_path.rglob("*.o")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-1])
    assert call(load(short)) == 42
    assert kept.stat().st_size >= len(whole)


def test_where_nothing_can_be_kept_it_runs_all_the_same(
    short: compiled.Piece, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WARPLAB_CACHE", str(tmp_path / "file" / "below"))
    compiled.compile_parts()  # tries nothing
    assert not compiled.is_kept(short)
    assert call(compiled._loaded.__wrapped__(short)) == 42
