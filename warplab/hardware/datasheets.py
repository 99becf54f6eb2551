"""Reads the datasheets of data/ into records, and refuses a file that is not one.

A file gives its figures in the units that datasheets print: clocks in MHz, what an SM holds and the L2 in KiB, memory
in GB, bandwidth and links in GB/s, peaks in dense TFLOP/s (TOP/s for integers), power in watts. A figure that was not
found, and one of a unit that the chip lacks, is left out. Every other one needs a source.
"""

from __future__ import annotations

from pathlib import Path
from sys import float_info
from types import MappingProxyType
from typing import Annotated, TypeVar

import msgspec

from warplab.errors import WarplabError
from warplab.hardware.records import GB, KIB, TERA, Chip, Evidence, Math, Source, Tpu

_MHZ = 1e6
_UNSOURCED = {"name", "driver_names", "sources"}  # what needs no source
_MATH = {math.name.lower(): math for math in Math}  # the kinds of arithmetic as files write them

Text = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(gt=0)]
Rate = Annotated[int, msgspec.Meta(gt=0)] | Annotated[float, msgspec.Meta(gt=0, le=float_info.max)]  # finite
T = TypeVar("T", bound=msgspec.Struct)


class DatasheetError(WarplabError):
    """A file of data/ that cannot be read, or holds something else than a datasheet."""


class _SourceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `Source`; `fields` name single peaks as the table of peaks does."""

    evidence: Evidence
    document: Text
    place: Text
    fields: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class _ChipFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `Chip`, in the units of a file."""

    name: Text
    driver_names: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]
    compute_capability: tuple[int, int]
    sms: Count
    cuda_cores_per_sm: Count
    tensor_cores_per_sm: Count
    register_file_per_sm: Count  # KiB
    shared_per_sm: Count  # KiB
    shared_per_block: Count  # KiB
    memory: Count  # GB
    memory_type: Text
    bandwidth: Rate  # GB/s
    peaks: dict[str, Rate]  # TFLOP/s, TOP/s for integers
    tdp: Rate  # watts
    sources: tuple[_SourceTable, ...]
    boost_clock: Rate | None = None  # MHz
    tensor_clock: Rate | None = None  # MHz
    l2: Count | None = None  # KiB
    nvlink: Rate | None = None  # GB/s, both directions together


class _TpuFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `Tpu`, in the units of a file. Its memory is in bytes: Google gives some in GB and some in GiB."""

    name: Text
    tensor_cores: Count
    bf16: Rate  # TFLOP/s
    memory: Count  # bytes
    bandwidth: Rate  # GB/s
    ici: Rate  # GB/s, both directions together
    source: Text
    matrix_units: Count | None = None
    matrix_side: Count | None = None
    fp8: Rate | None = None  # TFLOP/s


def read_chip(path: Path) -> Chip:
    """The datasheet in the file. Raises DatasheetError, whose text names the file and what is wrong."""
    file = _read(path, _ChipFile)
    _check(path, file)
    return Chip(
        name=file.name,
        driver_names=file.driver_names,
        compute_capability=file.compute_capability,
        sms=file.sms,
        boost_clock=_times(file.boost_clock, _MHZ),
        tensor_clock=_times(file.tensor_clock, _MHZ),
        cuda_cores_per_sm=file.cuda_cores_per_sm,
        tensor_cores_per_sm=file.tensor_cores_per_sm,
        register_file_per_sm=file.register_file_per_sm * KIB,
        shared_per_sm=file.shared_per_sm * KIB,
        shared_per_block=file.shared_per_block * KIB,
        l2=None if file.l2 is None else file.l2 * KIB,
        memory=file.memory * GB,
        memory_type=file.memory_type,
        bandwidth=file.bandwidth * GB,
        peaks=MappingProxyType({_MATH[name]: peak * TERA for name, peak in file.peaks.items()}),
        nvlink=_times(file.nvlink, GB),
        tdp=file.tdp,
        sources=tuple(_source(table) for table in file.sources),
    )


def read_tpu(path: Path) -> Tpu:
    """The TPU in the file. Raises DatasheetError, whose text names the file and what is wrong."""
    file = _read(path, _TpuFile)
    return Tpu(
        name=file.name,
        tensor_cores=file.tensor_cores,
        matrix_units=file.matrix_units,
        matrix_side=file.matrix_side,
        bf16=file.bf16 * TERA,
        fp8=_times(file.fp8, TERA),
        memory=file.memory,
        bandwidth=file.bandwidth * GB,
        ici=file.ici * GB,
        source=file.source,
    )


def _read(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise DatasheetError(f"The datasheet {path} cannot be read ({error.strerror}).") from None
    except (msgspec.MsgspecError, ValueError) as error:  # the second: not UTF-8
        raise DatasheetError(f"{path} is not a valid datasheet: {error}.") from None


def _check(path: Path, file: _ChipFile) -> None:
    """Whether peaks have names that exist, and exactly what has a figure has a source. Raises DatasheetError."""
    given = {name for name in file.__struct_fields__ if getattr(file, name) is not None} - _UNSOURCED
    sourced = {name for table in file.sources for name in table.fields}
    if unknown := sorted(file.peaks.keys() - _MATH.keys()):
        raise DatasheetError(f"{path} is not a valid datasheet: {unknown[0]!r} is no kind of arithmetic.")
    if missing := sorted(given - sourced):
        raise DatasheetError(f"{path} is not a valid datasheet: no source says where {missing[0]!r} was read.")
    if unused := sorted(sourced - given - file.peaks.keys()):
        raise DatasheetError(f"{path} is not a valid datasheet: a source names {unused[0]!r}, which has no figure.")


def _source(table: _SourceTable) -> Source:
    return Source(table.evidence, table.document, table.place, tuple(_MATH.get(name, name) for name in table.fields))


def _times(figure: float | None, unit: float) -> float | None:
    return None if figure is None else figure * unit
