"""Recorded kernels: PTX and machine code with their inputs, what they compute, and what Nsight Compute counted.

A zip per set: `kernels.json` says what is known of each kernel and which members make up its plan, with machine code
for sm_90a; `<kernel>.npz` has its inputs if no seed draws them, `<kernel>.expected.npz` NumPy's values. Kernels of one
module share their PTX and machine code. They replay without a compiler, and their sources are not kept.
`corpus.emulator.record` adds and renews kernels; `python -m benchmarks.validate corpus/<set>/` counts them on a GPU.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from corpus.emulator import draws
from corpus.emulator.compare import difference
from corpus.emulator.entry import Approximate
from warplab.files import write_whole
from warplab.plan import archive
from warplab.plan.model import Plan

FOLDER = Path(__file__).parent
KERNELS = "kernels.json"
_DATE = (2026, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Known:
    """What is known of a kernel. `outputs` are digests of arrays that NumPy confirmed when they were recorded, in those
    rows that its values have, or a GPU, bit for bit; but for `unconfirmed`: outputs that neither gives values for.

    `counters` are Nsight Compute's sums over all launches by the names of `Counters`, empty if it did not count;
    `card` says which GPU they are of, with what and when. `apart` names those that the emulator counts otherwise, and
    `why`. `approximate` says how far a GPU may differ, `tolerance` how far NumPy's values (`Entry.tolerance`).

    `seed` draws the inputs by `drawn`: the names of functions of `corpus.emulator.draws` by input, in order. Both are
    empty where inputs are kept.
    """

    outputs: Mapping[str, str]
    counters: Mapping[str, int]
    apart: tuple[str, ...] = ()
    why: str = ""
    counted: bool = True
    approximate: Mapping[str, float | int | str] | None = None
    tolerance: float = 0.0
    card: str = ""
    unconfirmed: tuple[str, ...] = ()
    seed: str = ""
    drawn: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordedKernel:
    """A kernel ready to run. `name` is "set/kernel".

    `expected` has NumPy's values of those outputs that are rounded, in float64. Digests decide about the others that
    were confirmed.
    """

    name: str
    plan: Plan
    inputs: Mapping[str, np.ndarray]
    known: Known
    expected: Mapping[str, np.ndarray]

    @property
    def approximate(self) -> Approximate | None:
        """How far the emulator may be from a GPU."""
        return Approximate(**self.known.approximate) if self.known.approximate else None  # type: ignore[arg-type]

    def problem(self, outputs: Mapping[str, np.ndarray]) -> str:
        """Empty if the outputs are what NumPy says, whatever they were when recorded; else one sentence."""
        found = digests(outputs)
        for name, wanted in self.known.outputs.items():
            if name in self.expected or name in self.known.unconfirmed:
                continue
            if found[name] != wanted:
                return f"{name} has the digest {found[name]} where {wanted} was recorded"
        return difference(self.expected, outputs, self.expected, self.known.tolerance)


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
        expected = f"{kernel}.expected.npz"
        known_values = _arrays(opened.read(expected)) if expected in opened.namelist() else {}
        inputs = _drawn(known, plan) if known.seed else _arrays(opened.read(f"{kernel}.npz"))
        return RecordedKernel(name, plan, inputs, known, known_values)


def _drawn(known: Known, plan: Plan) -> dict[str, np.ndarray]:
    generator, buffers = np.random.default_rng(zlib.crc32(known.seed.encode())), plan.buffers
    return {
        name: draws.drawn(generator, getattr(draws, source), buffers[name].shape, np.dtype(buffers[name].dtype))
        for name, source in known.drawn.items()
    }


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
            if not one.known.seed:
                _add(opened, f"{kernel}.npz", _packed(one.inputs))
            if one.expected:
                _add(opened, f"{kernel}.expected.npz", _packed(one.expected))
        _add(opened, KERNELS, (json.dumps(known, indent=1) + "\n").encode())
    of_set.cache_clear()
    path = FOLDER / f"{folder}.zip"
    write_whole(path, out.getvalue())
    return path


def _packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays as the content of an .npz file."""
    members = {}
    for name, array in arrays.items():
        out = io.BytesIO()
        np.save(out, array, allow_pickle=False)
        members[f"{name}.npy"] = out.getvalue()
    return _zipped(members)


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


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
        entry["unconfirmed"] = tuple(entry["unconfirmed"])
    return {name: Known(**entry) for name, entry in found.items()}
