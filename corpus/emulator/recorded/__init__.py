"""Recorded kernels: PTX and machine code with their inputs, what they compute, and what Nsight Compute counted.

A zip per set: `kernels.json` says what is known of each kernel and which members make up its plan, with machine code
for sm_90a; `<kernel>.npz` has its inputs. Kernels of one module share their PTX and machine code. They replay without a
compiler, and their sources are not kept. `corpus.emulator.record` adds kernels; `python -m benchmarks.validate
corpus/<set>/` counts them again on a GPU.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import numpy as np

from corpus.emulator.entry import Approximate
from warplab.files import write_whole
from warplab.plan import archive
from warplab.plan.model import Plan

FOLDER = Path(__file__).parent
KERNELS = "kernels.json"
_DATE = (2026, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Known:
    """What is known of a kernel. `outputs` are digests of arrays that NumPy confirmed when they were recorded.

    `counters` are Nsight Compute's sums over all launches by the names of `Counters`, empty if it did not count.
    `apart` names those that the emulator counts otherwise, and `why`. `approximate` says how far a GPU may differ.
    """

    outputs: Mapping[str, str]
    counters: Mapping[str, int]
    apart: tuple[str, ...] = ()
    why: str = ""
    counted: bool = True
    approximate: Mapping[str, float | int | str] | None = None


@dataclass(frozen=True)
class RecordedKernel:
    """A kernel ready to run. `name` is "set/kernel"."""

    name: str
    plan: Plan
    inputs: Mapping[str, np.ndarray]
    known: Known

    @property
    def approximate(self) -> Approximate | None:
        """How far the emulator may be from a GPU."""
        return Approximate(**self.known.approximate) if self.known.approximate else None  # type: ignore[arg-type]


def sets() -> tuple[str, ...]:
    """The names of the sets."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.zip")))


def names() -> tuple[str, ...]:
    """All kernels, as "set/kernel"."""
    return tuple(f"{name}/{kernel}" for name in sets() for kernel in of_set(name))


def load(name: str) -> RecordedKernel:
    """A kernel by its name. Raises KeyError if there is none."""
    folder, _, kernel = name.partition("/")
    known = of_set(folder)[kernel]
    with zipfile.ZipFile(FOLDER / f"{folder}.zip") as opened:
        parts = json.loads(opened.read(KERNELS))[kernel]["plan"]
        plan = archive.loads(_zipped({part: opened.read(blob) for part, blob in parts.items()}))
        with np.load(io.BytesIO(opened.read(f"{kernel}.npz")), allow_pickle=False) as arrays:
            return RecordedKernel(name, plan, dict(arrays), known)


def digests(outputs: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Sixteen hex digits for each array's bytes."""
    return {
        name: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16] for name, array in outputs.items()
    }


def write(folder: str, kernels: Iterable[RecordedKernel]) -> Path:
    """Write a set, in place of the one of this name; the same kernels make the same bytes."""
    out, known = io.BytesIO(), {}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as opened:
        for one in sorted(kernels, key=lambda one: one.name):
            kernel = one.name.partition("/")[2]
            known[kernel] = asdict(one.known)
            parts = {}
            with zipfile.ZipFile(io.BytesIO(archive.dumps(one.plan))) as plan:
                for part in plan.namelist():
                    content = plan.read(part)
                    parts[part] = f"parts/{hashlib.sha256(content).hexdigest()[:20]}"
                    if parts[part] not in opened.namelist():
                        _add(opened, parts[part], content)
            known[kernel]["plan"] = parts
            _add(opened, f"{kernel}.npz", _zipped({f"{name}.npy": _bytes(a) for name, a in one.inputs.items()}))
        _add(opened, KERNELS, (json.dumps(known, indent=1) + "\n").encode())
    of_set.cache_clear()
    path = FOLDER / f"{folder}.zip"
    write_whole(path, out.getvalue())
    return path


def _bytes(array: np.ndarray) -> bytes:
    """An array as the content of an .npy file."""
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def _zipped(members: Mapping[str, bytes]) -> bytes:
    """A zip that compresses nothing: it lies in one that does."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as opened:
        for name, content in members.items():
            _add(opened, name, content)
    return out.getvalue()


def _add(opened: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _DATE)
    info.compress_type = opened.compression
    opened.writestr(info, content)


@cache
def of_set(folder: str) -> dict[str, Known]:
    """What is known of each kernel of a set, by its name there."""
    with zipfile.ZipFile(FOLDER / f"{folder}.zip") as opened:
        found = json.loads(opened.read(KERNELS))
    for entry in found.values():
        del entry["plan"]
        entry["apart"] = tuple(entry["apart"])
    return {name: Known(**entry) for name, entry in found.items()}
