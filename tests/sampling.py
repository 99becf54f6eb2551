"""Which cases of many `make test` runs, so that it takes minutes: a part of them by default, all with WARPLAB_WHOLE=1.

`make test-long` sets WARPLAB_WHOLE. Whoever changes a lab does so, too:
`WARPLAB_WHOLE=1 python -m pytest tests/labs -k 06_tiled_gemm`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")
WHOLE = os.environ.get("WARPLAB_WHOLE", "") not in ("", "0")
only_whole = pytest.mark.skipif(not WHOLE, reason="make test-long has it")


def part_of(whole: Iterable[T], every: int, kind: Callable[[T], object] = lambda path: path.parts[-3]) -> list[T]:
    """Every so many of each kind (of each lab, for files), the first included; all of them if WHOLE."""
    kinds: dict[object, list[T]] = defaultdict(list)
    for one in whole:
        kinds[kind(one)].append(one)
    return [one for of_a_kind in kinds.values() for one in of_a_kind[:: 1 if WHOLE else every]]


def seeds(whole: int, part: int) -> range:
    """The first `part` of `whole` seeds; all of them if WHOLE."""
    return range(whole if WHOLE else part)


def one_of_each(whole: Iterable[T], *kinds: Callable[[T], object]) -> list[T]:
    """Those that are the first of any kind: of a lab, say, or of a verdict; all of them if WHOLE."""
    seen: set[tuple[int, object]] = set()
    taken = []
    for one in whole:
        shown = {(number, kind(one)) for number, kind in enumerate(kinds)}
        if WHOLE or not shown <= seen:
            taken.append(one)
        seen |= shown
    return taken
