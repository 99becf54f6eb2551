"""Reading untrusted JSON: each field is asked for by name and type, and what nobody asked for is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, TypeVar

from warplab.errors import PlanError

_E = TypeVar("_E", bound=StrEnum)
_MOST_INTEGER = 1 << 63
_MOST_ITEMS = 100_000
_MOST_TEXT = 70_000  # a structure of 32 KiB in hexadecimal
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_WORDS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


class Fields:
    """One JSON object. Every method raises PlanError, naming the place, if the field is missing or of another type."""

    def __init__(self, value: Any, where: str) -> None:
        self.where = where
        if not isinstance(value, dict):
            raise PlanError(f"{where} must be an object.")
        if len(value) > _MOST_ITEMS:
            raise PlanError(f"{where} has too many fields.")
        self._value = value
        self._asked: set[str] = set()

    def names(self) -> list[str]:
        """The names of all fields."""
        return list(self._value)

    def done(self) -> None:
        """Refuse the fields that were not asked for."""
        if unknown := sorted(set(self._value) - self._asked):
            raise PlanError(f"{self.where} has an unknown field {unknown[0][:80]!r}.")

    def _get(self, name: str) -> Any:
        self._asked.add(name)
        if name not in self._value:
            raise PlanError(f"{self.where} lacks {name!r}.")
        return self._value[name]

    def _wrong(self, name: str, wanted: str) -> PlanError:
        return PlanError(f"{self.where}: {name} must be {wanted}.")

    def text(self, name: str) -> str:
        """A string of bounded length."""
        return self._text(name, self._get(name))

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str) or len(value) > _MOST_TEXT:
            raise self._wrong(name, "a string of reasonable length")
        if _SURROGATE.search(value):  # half of a character, which nothing can write down
            raise self._wrong(name, "text")
        return value

    def integer(self, name: str) -> int:
        """An integer of 64 bits."""
        return self._integer(name, self._get(name))

    def _integer(self, name: str, value: Any) -> int:
        # A JSON true is an int to Python.
        if type(value) is not int or not -_MOST_INTEGER <= value < 2 * _MOST_INTEGER:
            raise self._wrong(name, "an integer of 64 bits")
        return value

    def optional_integer(self, name: str) -> int | None:
        """An integer or null."""
        value = self._get(name)
        return None if value is None else self._integer(name, value)

    def number(self, name: str) -> int | float:
        """An integer, a float, or one of the words inf, -inf, nan."""
        value = self._get(name)
        if isinstance(value, str) and value in _WORDS:
            return _WORDS[value]
        if isinstance(value, float):
            return value
        return self._integer(name, value)

    def boolean(self, name: str) -> bool:
        """A boolean."""
        value = self._get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def member(self, name: str, enum: type[_E]) -> _E:
        """A member of an enumeration, by value."""
        try:
            return enum(self.text(name))
        except ValueError:
            raise self._wrong(name, f"one of {', '.join(enum)}") from None

    def _list(self, name: str) -> list[Any]:
        value = self._get(name)
        if not isinstance(value, list) or len(value) > _MOST_ITEMS:
            raise self._wrong(name, "a list of reasonable length")
        return value

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of integers."""
        return tuple(self._integer(name, v) for v in self._list(name))

    def texts(self, name: str) -> list[str]:
        """A list of strings."""
        return [self._text(name, v) for v in self._list(name)]

    def items(self, name: str) -> Iterator[Fields]:
        """A list of objects."""
        for i, value in enumerate(self._list(name)):
            yield Fields(value, f"{self.where}, {name}[{i}]")

    def nested(self, name: str) -> Fields:
        """An object."""
        return Fields(self._get(name), f"{self.where}, {name}")

    def named(self, name: str) -> Iterator[tuple[str, Fields]]:
        """An object of objects, with their names."""
        inner = self.nested(name)
        for key, value in inner._value.items():
            yield key, Fields(value, f"{self.where}, {name} {key[:80]!r}")
