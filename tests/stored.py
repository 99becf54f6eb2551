"""What compilers made for the tests marked `stored`: captures, PTX, machine code and its text, in `stored.zip`.

Compilers take most of the time of such a test, and what they make changes with the kernels, the capture or the
toolkit alone. `make test` reads it; `make test-all` makes it again and compares (WARPLAB_STORED=check); `make stored`
renews it (WARPLAB_STORED=renew).
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import os
import re
import sys
import textwrap
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest
from filelock import FileLock

from warplab.plan import cache as cache_of_files
from warplab.plan.capture.protocol import Request, encode_request

PLACE = Path(__file__).with_name("stored.zip")
VERSIONS = "versions.json"
_TOOLKIT = ("numba-cuda", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvcc")
_LATEST = (2026, 1, 1, 0, 0, 0)
# Numba counts the functions that a process compiles, and the arrays in their shared memory.
_FUNCTION, _ARRAY = re.compile(r"B\d+v\d+(?=B\d)"), re.compile(r"(?<=_cudapy_[scl]mem_)\d+")
MODE = os.environ.get("WARPLAB_STORED", "read")

made: dict[str, bytes] = {}  # by this process, when it renews


def kept(kind: str, parts: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
    """What `make` gives for these parts, from the store; made when the store is checked or renewed."""
    return keep(_name(kind, parts), make()) if MODE != "read" else of(_name(kind, parts))


def of(name: str) -> bytes:
    """A member of the store. Fails the test if there is none."""
    found = _members().get(name)
    if found is None:
        pytest.fail(
            f"tests/stored.zip has no {name.split('/')[0]} of this kernel: run `make stored`, or mark the test "
            "`processes`, which leaves it to make test-all."
        )
    return found


def keep(name: str, content: bytes) -> bytes:
    """Compare content with the store's, or put it there. Fails the test if the next clone would make another."""
    if any(place.encode() in content for place in (os.getcwd(), sys.prefix)):
        pytest.fail(f"What the compilers make of {name} names a folder of this clone: mark the test `processes`.")
    if MODE == "renew":
        made[name] = content
    elif same_toolkit() and of(name) != content:
        pytest.fail(f"{name} of tests/stored.zip is not what the compilers make: run `make stored`.")
    return content


def read(kind: str, key: str) -> bytes | None:
    """`warplab.plan.cache.read` of a test that is marked `stored`."""
    if MODE == "read":
        return _members().get(f"{kind}/{key[:24]}")
    return made.get(f"{kind}/{key[:24]}")


def write(kind: str, key: str, content: bytes) -> None:
    """`warplab.plan.cache.write` of such a test."""
    keep(f"{kind}/{key[:24]}", content)


def captured(request: Request, capture: Callable[[Request], bytes]) -> bytes:
    """What a capture process answers, its plans uncompressed: they are compressed with the store."""
    asked = replace(request, seconds=0, readable=None)
    return kept("capture", (encode_request(asked).decode(),), lambda: _uncompressed(capture(request)))


def _uncompressed(answer: bytes) -> bytes:
    head, line, content = answer.partition(b"\n")
    sizes = json.loads(head).get("plans")
    if sizes is None:
        return answer
    plans, start = [], 0
    for size in sizes:
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content[start : start + size])) as plan, zipfile.ZipFile(out, "w") as stored:
            for info in plan.infolist():
                data = plan.read(info)
                info.compress_type = zipfile.ZIP_STORED
                stored.writestr(info, data)
        plans.append(out.getvalue())
        start += size
    return json.dumps({"plans": [len(plan) for plan in plans]}).encode() + line + b"".join(plans)


def renumbered(ptx: str) -> str:
    """Numba's PTX with the numbers that it would have if a process compiled nothing else."""
    numbers: dict[str, str] = {}
    return _ARRAY.sub(lambda found: numbers.setdefault(found[0], str(len(numbers) + 1)), _FUNCTION.sub("B2v1", ptx))


def identity(function: FunctionType) -> str:
    """What a kernel's PTX follows from: its text and line, and those of what it calls or reads by name."""
    texts: list[str] = []
    seen: set[int] = set()

    def add(value: Any) -> None:
        inner = getattr(value, "py_func", value)
        if isinstance(inner, FunctionType):
            if id(inner) in seen or inner.__module__.split(".")[0] in ("numba", "numpy"):
                return
            seen.add(id(inner))
            text = textwrap.dedent(inspect.getsource(inner))
            texts.append(f"{inner.__code__.co_firstlineno} {text}")
            cells = zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True)
            named = {name: cell.cell_contents for name, cell in cells}
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Name):
                    add(named.get(node.id, inner.__globals__.get(node.id)))
        elif not isinstance(value, ModuleType):
            shown = repr(value)
            texts.append(getattr(value, "__name__", "") if " at 0x" in shown else shown)

    add(function)
    return "\0".join(texts)


@cache
def same_toolkit() -> bool:
    """Whether the compilers at hand are those that made the store."""
    return json.loads(of(VERSIONS)) == _versions()


def save() -> None:
    """Add what this process has made to the store."""
    if MODE != "renew" or not made:
        return
    with FileLock(cache_of_files.folder() / "stored.lock"):
        members = {**_read(), **made, VERSIONS: json.dumps(_versions()).encode()}
        target = PLACE.with_suffix(".new")
        with zipfile.ZipFile(target, "w") as archive:
            for name in sorted(members):
                info = zipfile.ZipInfo(name, _LATEST)
                info.compress_type = zipfile.ZIP_LZMA
                archive.writestr(info, members[name])
        target.replace(PLACE)


def _name(kind: str, parts: tuple[str, ...]) -> str:
    return f"{kind}/{cache_of_files.key_of(*parts)[:24]}"


@cache
def _members() -> _Archive:
    return _Archive()


class _Archive:
    """The store, unpacked as it is read."""

    def __init__(self) -> None:
        self._archive = zipfile.ZipFile(PLACE) if PLACE.exists() else None
        self._names = frozenset(self._archive.namelist()) if self._archive else frozenset()

    def get(self, name: str) -> bytes | None:
        return self._archive.read(name) if self._archive and name in self._names else None


def _read() -> dict[str, bytes]:
    if not PLACE.exists():
        return {}
    with zipfile.ZipFile(PLACE) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _versions() -> dict[str, str]:
    found = {}
    for package in _TOOLKIT:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
