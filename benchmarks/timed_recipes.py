"""Compiles recipes of `systems.kernels` side by side, and wraps them as candidates of a timing in alternation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from systems.kernels.compiled import image_of
from systems.kernels.ready import Prepared
from systems.kernels.recipes import Recipe

SECONDS, PRECISION = 0.06, 0.01  # of turns for one shape


class Ours:
    """A recipe as a candidate of turns."""

    def __init__(self, recipe: Recipe, stream: Any, arrays: Mapping[str, Any]) -> None:
        import torch

        self._prepared, self.launches = Prepared(recipe, 0, tuple(arrays)), len(recipe.launches)
        self._kept = [
            *arrays.values(),
            *(torch.empty(size, dtype=torch.uint8, device="cuda") for size in self._prepared.scratch),
        ]
        self._addresses, self._stream = [array.data_ptr() for array in self._kept], int(stream.handle)

    def prepare(self, turn: int) -> None:
        """Nothing to prepare: the work does not depend on the data."""

    def launch(self) -> None:
        """Queue the product."""
        self._prepared(self._addresses, self._stream)

    def check(self, turn: int) -> None:
        """Nothing to check: the first launch was compared."""


def compile_all(recipes: Iterable[Recipe]) -> int:
    """Compile every kernel into the cache, as many at a time as there are processors. Returns their number."""
    codes = {code for recipe in recipes for code in recipe.codes.values()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda code: image_of(code, "sm_90a"), codes))
    return len(codes)
