"""Puts the captures in place when the submission imports Numba's CUDA target or CuPy, and not before.

Importing both takes longer than capturing, and most submissions use one.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from warplab.plan.capture.recorder import Recorder


def install(recorder: Recorder) -> None:
    """Hook the imports of this process. Called once, before the submission is imported; Numba may have been before."""
    hook = _Hook(recorder)
    sys.meta_path.insert(0, hook)
    if "numba.cuda" in sys.modules:
        hook.install_numba()


class _Hook(importlib.abc.MetaPathFinder):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._busy = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "numba.cuda" and not self._busy:
            return self._after_import(fullname, path)
        if fullname.partition(".")[0] in ("cupy", "cupyx"):
            # A module of our own stands in for CuPy, so that a machine without it can capture as well.
            from warplab.plan.capture.of_cupy import capture as cupy_capture

            return cupy_capture.find_spec(fullname, self._recorder)
        return None

    def _after_import(self, fullname: str, path: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
        self._busy = True
        try:
            for finder in sys.meta_path:
                if finder is not self and hasattr(finder, "find_spec"):
                    spec = finder.find_spec(fullname, path)
                    if spec is not None and spec.loader is not None:
                        spec.loader = _Loader(spec.loader, self.install_numba)
                        return spec
        finally:
            self._busy = False
        return None

    def install_numba(self) -> None:
        """Put the captures into Numba's CUDA target, which is there."""
        from warplab.plan.capture.of_numba import capture as numba_capture

        numba_capture.install(self._recorder)


class _Loader(importlib.abc.Loader):
    """A loader that calls `after` once the module is there."""

    def __init__(self, loader: Any, after: Callable[[], None]) -> None:
        self._loader = loader
        self._after = after

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._after()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
