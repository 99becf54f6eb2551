"""The published models of data/models.toml."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from systems.parallel.shapes import Experts, Latent, LayoutError, Model

DATA = Path(__file__).resolve().parent / "data"

Count = Annotated[int, msgspec.Meta(gt=0)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
T = TypeVar("T", bound=msgspec.Struct)


class _Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: Text
    layers: Count
    hidden: Count
    ffn: Count
    heads: Count
    kv_heads: Count
    vocabulary: Count
    source: Text
    head_width: int = 0
    gated: bool = True
    tied: bool = False
    latent: Latent | None = None
    experts: Experts | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: tuple[_Model, ...]


def read(path: Path, kind: type[T]) -> T:
    """A file of data/ as `kind`. Raises LayoutError, whose text names the file and what is wrong."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise LayoutError(f"The file {path} cannot be read ({error.strerror}).") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise LayoutError(f"{path} is not as it should be: {error}.") from None


@cache
def _models() -> dict[str, Model]:
    return {one.name: Model(**msgspec.structs.asdict(one)) for one in read(DATA / "models.toml", _File).models}


def find_model(name: str) -> Model:
    """The model of this name, for example "Llama 3 405B". Raises LayoutError if there is none."""
    try:
        return _models()[name]
    except KeyError:
        raise LayoutError(f"There is no model named {name!r}: there are {', '.join(_models())}.") from None


def all_models() -> tuple[Model, ...]:
    """Every model of the file, in its order."""
    return tuple(_models().values())
