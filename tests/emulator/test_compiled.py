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
from typing import Any

import pytest
from filelock import FileLock
from numba import types
from numba.core.ccallback import CFunc

import warplab
from warplab.emulator import compilation, compiled, lean_numba
from warplab.emulator.core.state.faults import compiled as compiled_helper
from warplab.emulator.lean_numba import lean
from warplab.errors import WarplabError

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


LOOP, ARITHMETIC, BULK, WGMMA, TCGEN05 = (
    compiled.Piece(name) for name in ("loop", "arithmetic", "bulk", "wgmma", "tcgen05")
)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("interpreter.py", {LOOP}),
        ("alu/floats.py", {ARITHMETIC}),
        ("alu/call.py", {LOOP}),
        ("memory/shared_access.py", {LOOP}),
        ("memory/shadow.py", {LOOP, BULK, WGMMA, TCGEN05}),
        ("asynchronous/tensor_copies.py", {BULK}),
        ("tensor/wgmma.py", {WGMMA}),
        ("tensor_memory/product.py", {TCGEN05}),
        ("state/layout.py", set(compiled.Piece)),
        ("../compilation.py", set(compiled.Piece)),
        ("../lean_numba.py", set(compiled.Piece)),
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
    assert call(compiled._function(short).address or 0) == 42 and compiled.is_kept(short)
    load = compiled._loaded.__wrapped__
    with monkeypatch.context() as patch:
        patch.setattr(compiled, "_function", None)
        assert call(load(short)) == 42
    (kept,) = tmp_path.rglob("*.o")
    kept.write_bytes(kept.read_bytes()[:-1])
    assert compiled._kept(short) is None
    assert call(load(short)) == 42
    assert compiled._kept(short) is not None


def test_what_a_notebook_shows_ends_when_a_part_does_not_compile(
    short: compiled.Piece, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("WARPLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(WarplabError, match="wgmma did not compile"):
        compiled.compile_parts([short])
    assert capsys.readouterr().err.splitlines()[-1].startswith("The emulator is not compiled (")


def test_where_nothing_can_be_kept_it_runs_all_the_same(
    short: compiled.Piece, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WARPLAB_CACHE", str(tmp_path / "file" / "below"))
    compiled.compile_parts()  # tries nothing
    assert not compiled.is_kept(short)
    assert call(compiled._loaded.__wrapped__(short)) == 42


COMPILE_SHORT = """
import sys
from pathlib import Path
from numba import types
from warplab.emulator import compilation, compiled

def run_products(x):
    return x + 1

compilation.SOURCES["wgmma"] = run_products, types.int64(types.int64)
compile = compiled._function

def counted(part):
    with Path(sys.argv[2]).open("a") as log:
        log.write("compiled ")
    return compile(part)

compiled._function = counted
print("ready", flush=True)
sys.stdin.readline()
compiled.main()
"""


def test_two_processes_compile_a_part_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environment = {**os.environ, "WARPLAB_CACHE": str(tmp_path), "PYTHONPATH": str(PACKAGE.parent)}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    script = COMPILE_SHORT.replace("sys.argv[2]", repr(str(log)))
    command = [sys.executable, "-c", script, "wgmma"]
    both = [subprocess.Popen(command, env=environment, text=True, **pipes) for _ in range(2)]
    for process in both:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    with FileLock(folder_in(tmp_path) / "wgmma.lock"):  # as a third process that compiles it holds
        for process in both:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in both:
            assert process.stderr is not None and "another process compiles it" in process.stderr.readline()
    assert [process.wait(60) for process in both] == [0, 0]
    assert log.read_text() == "compiled "


def folder_in(cache: Path) -> Path:
    """The folder of the part wgmma in a cache; made, as the lock needs it."""
    folder = cache / "compiled" / HERE[WGMMA]
    folder.mkdir(parents=True)
    return folder


@compiled_helper
def _twice(x):
    return max(x, x - 1) * 2


@compiled_helper
def _next(x):
    return _twice(x) + 1


HELPERS: tuple[Any, ...] = (_next, _twice)


def test_a_helper_that_is_kept_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[tuple[str, str], bytes] = {}

    class Store:
        def read(self, module: str, function: str) -> bytes | None:
            return kept.get((module, function))

        def write(self, module: str, function: str, content: bytes) -> None:
            assert (module, function) not in kept
            kept[module, function] = content

    def run_helpers(x):
        return _next(x)

    def compile_anew() -> int:
        for helper in HELPERS:
            helper.overloads.clear()
            helper._make_finalizer()()
        signature = types.int64(types.int64)
        function = CFunc(run_helpers, (signature.args, signature.return_type), {}, {"nopython": True})
        with lean(frozenset({run_helpers.__qualname__}), __name__, Store()):
            function.compile()
        return call(function.address or 0)

    def refuse(*_: object) -> None:
        pytest.fail("a helper was compiled again")

    assert compile_anew() == 83
    assert {name.split("(")[0] for _, name in kept} == {"_twice", "_next"}
    monkeypatch.setattr(lean_numba._Kept, "save_overload", refuse)
    assert compile_anew() == 83
