"""What a test may start, by its marks; whatever else it starts fails it.

| mark | what it may start | who runs it |
|---|---|---|
| none | nothing | make test |
| `stored` | nothing; what compilers make comes from `stored.zip` | make test; make test-all makes it again |
| `processes` | processes and compilers; captures are forked from a warm process | make test-all |
| `cold_captures` | the same, and captures are started as users have them | make test-all |
| `slow` | nothing, or with `stored` the same; it takes a second or more | make test-all |
| `smoke`, beside the last two | the same: one of a kind | make test |
| `pages` | processes: checks of records and pages, not of code | make lint |
| `gpu`, `multigpu`, `instructor` | processes and compilers | make test-gpu, make test-instructor |
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from tests import stored, warm_captures
from warplab.plan import assemble, assembler, disassembler
from warplab.plan import cache as cache_of_files
from warplab.plan.capture import child_process, escape_probe, nvrtc, submission
from warplab.plan.capture.protocol import Request
from warplab.plan.capture.several_process import CaptureProcesses
from warplab.sandbox.isolation import Isolation

STARTS = frozenset(
    {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", warm_captures.STARTED}
)
KINDS = frozenset({assemble.CACHE_KIND, disassembler.CACHE_KIND})  # of the user's cache
COMPILERS = ("libnvrtc", "libnvvm", "libnvJitLink")
HARMLESS = frozenset({"fc-list", "ldconfig", "uname", "lscpu"})  # what libraries ask of a machine, once
STARTERS = frozenset({"processes", "pages", "gpu", "multigpu", "instructor"})


class Now:
    """The test that runs, its marks, and what it was refused."""

    test = ""
    marks: frozenset[str] = frozenset()
    refused = ""


def begin(item: pytest.Item) -> None:
    """Have what follows be started by this test, or not."""
    Now.test, Now.refused = item.nodeid, ""
    Now.marks = frozenset(mark.name for mark in item.iter_markers())
    # Without the mark no test leaves a process that captures are forked from to the next one.
    CaptureProcesses.for_text = _FOR_TEXT if "cold_captures" in Now.marks else lambda self, text: None  # type: ignore
    if Now.marks & STARTERS:
        Now.marks -= {"stored"}
        cache_of_files.read, cache_of_files.write, assembler.version = _READ, _WRITE, _VERSION
        warm_captures.use(warm_captures.ARE_USED and "cold_captures" not in Now.marks)
        escape_probe._tried_out = _TRIED_OUT
    else:
        cache_of_files.read, cache_of_files.write = _read, _write
        assembler.version = lambda: "of the store"
        submission.child_process = SimpleNamespace(run=_capture, PROCESSOR_SECONDS=child_process.PROCESSOR_SECONDS)
        escape_probe._tried_out = lambda: Isolation.REDUCED  # it is tried out by processes


def end() -> None:
    """Fail the test if it was refused something and went on, in a thread of its own for example."""
    Now.test, refused = "", Now.refused
    if refused:
        pytest.fail(refused)


def _may_start() -> bool:
    return not Now.test or bool(Now.marks & STARTERS) or ("stored" in Now.marks and stored.MODE != "read")


def _refuse(what: str) -> NoReturn:
    Now.refused = (
        f"{Now.test} starts {what}: mark it `processes`, or `stored` if it needs what a compiler makes and no more "
        "(tests/tiers.py)."
    )
    pytest.fail(Now.refused)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Audit hook: refuse what a test without a mark starts."""
    if event in STARTS:
        what = event
        if event == "subprocess.Popen":
            command = arguments[1]
            words = [command] if isinstance(command, (str, bytes)) else list(command)
            what = os.path.basename(os.fsdecode(words[0]))
            if what in HARMLESS:
                return
    elif event == "ctypes.dlopen" and any(name in str(arguments[0]) for name in COMPILERS):
        what = os.path.basename(str(arguments[0]))
    else:
        return
    if not _may_start():
        _refuse(what)


def _capture(
    request: Request, isolation: Isolation, timeout: float, spend: Callable[[float], None] = lambda seconds: None
) -> bytes:
    if "stored" not in Now.marks:
        _refuse("a capture")
    return stored.captured(request, lambda asked: warm_captures.child_processes().run(asked, isolation, timeout, spend))


def stored_or_made(kind: str, parts: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
    """What a compiler makes of `parts`, from the store if the test has its mark."""
    return stored.kept(kind, parts, make) if "stored" in Now.marks else make()


def _compile_cpp(
    code: str, file: str, options: Sequence[str], name_expressions: Sequence[str], architecture: str
) -> nvrtc.Module:
    """`nvrtc.compile_cpp`, whose modules the store has for tests with its mark."""

    def compiled() -> nvrtc.Module:
        return _COMPILE_CPP(code, file, options, name_expressions, architecture)

    parts = (code, file, *options, *name_expressions, architecture)
    return nvrtc.Module(**json.loads(stored_or_made("cpp", parts, lambda: json.dumps(asdict(compiled())).encode())))


def _read(kind: str, key: str) -> bytes | None:
    if kind not in KINDS:
        return _READ(kind, key)
    return stored.read(kind, key) if "stored" in Now.marks else None


def _write(kind: str, key: str, content: bytes) -> None:
    if kind not in KINDS:
        _WRITE(kind, key, content)
    elif "stored" in Now.marks:
        stored.write(kind, key, content)


_READ, _WRITE, _VERSION = cache_of_files.read, cache_of_files.write, assembler.version
_FOR_TEXT = CaptureProcesses.for_text
_COMPILE_CPP, _TRIED_OUT = nvrtc.compile_cpp, escape_probe._tried_out
nvrtc.compile_cpp = _compile_cpp  # before anybody imports it by its name
sys.addaudithook(_watch)
