"""What links carry and how long a message waits for them: the figures of data/links.toml, each with its source."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from warplab.errors import WarplabError
from warplab.hardware.records import GB, Evidence, Source

DATA = Path(__file__).resolve().parent / "data"
MICROSECOND = 1e-6
_FIGURES = {"bandwidth", "latency", "ports"}


class NetworkError(WarplabError):
    """A network, a collective or a file about them that cannot be: the text says what, where and what to do."""


@dataclass(frozen=True)
class Link:
    """One port: `bandwidth` in bytes/s each direction, `latency` in seconds; `ports` physical links make it up."""

    name: str
    bandwidth: float
    latency: float
    ports: int
    sources: tuple[Source, ...]

    def source(self, figure: str) -> Source | None:
        """Where "bandwidth", "latency" or "ports" was read."""
        return next((source for source in self.sources if figure in source.fields), None)


class _SourceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    evidence: Evidence
    document: Annotated[str, msgspec.Meta(min_length=1)]
    place: Annotated[str, msgspec.Meta(min_length=1)]
    fields: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]


class _LinkTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    bandwidth: Annotated[float, msgspec.Meta(gt=0)]  # GB/s
    latency: Annotated[float, msgspec.Meta(ge=0)]  # us
    ports: Annotated[int, msgspec.Meta(gt=0)]
    sources: tuple[_SourceTable, ...]


class _LinksFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    links: tuple[_LinkTable, ...]


def read_links(path: Path) -> dict[str, Link]:
    """The links of a file, by name. Raises NetworkError, whose text names the file and what is wrong."""
    try:
        file = msgspec.toml.decode(path.read_bytes(), type=_LinksFile)
    except OSError as error:
        raise NetworkError(f"The file of links {path} cannot be read ({error.strerror}).") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise NetworkError(f"{path} is not a valid file of links: {error}.") from None
    links: dict[str, Link] = {}
    for table in file.links:
        sourced = {name for source in table.sources for name in source.fields}
        if table.name in links:
            raise NetworkError(f"{path} is not a valid file of links: {table.name!r} is there twice.")
        if missing := sorted(_FIGURES - sourced):
            raise NetworkError(f"{path} is not a valid file of links: no source says where {missing[0]!r} of "
                               f"{table.name!r} was read.")  # fmt: skip
        if unknown := sorted(sourced - _FIGURES):
            raise NetworkError(f"{path} is not a valid file of links: a source of {table.name!r} names "
                               f"{unknown[0]!r}, which is no figure of a link.")  # fmt: skip
        sources = tuple(Source(s.evidence, s.document, s.place, s.fields) for s in table.sources)
        links[table.name] = Link(table.name, table.bandwidth * GB, table.latency * MICROSECOND, table.ports, sources)
    return links


@cache
def _links() -> dict[str, Link]:
    return read_links(DATA / "links.toml")


def find_link(name: str) -> Link:
    """The link of this name, for example "nvlink4". Raises NetworkError if there is none."""
    try:
        return _links()[name]
    except KeyError:
        raise NetworkError(f"There is no link named {name!r}: there are {', '.join(sorted(_links()))}.") from None


def all_links() -> tuple[Link, ...]:
    """Every link of the file, in its order."""
    return tuple(_links().values())
