"""Copies from the device to the host while a run is recorded: their contents are known after it.

A copy stands for itself until the host function returns it. Nothing can compute with it before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warplab.own_kernels.messages import View
from warplab.plan.capture.arrays import CapturedArray
from warplab.plan.capture.recorder import Recorder

_LATER = "what it holds is known when the kernels run, so return the array and compute with it after the run"


class HostResults:
    """What the host function copies back, in one run."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._filled: dict[int, tuple[np.ndarray, CapturedArray]] = {}  # host arrays that copies were made into

    def install(self) -> None:
        """Give captured arrays the methods that copy to the host."""

        def copied(array: CapturedArray, ary: Any = None, stream: Any = None, **kwargs: Any) -> Any:
            return self.copy(array, ary)

        cls: Any = CapturedArray
        cls.copy_to_host, cls.get = copied, lambda array, stream=None, order="C", out=None: self.copy(array, out)
        cls.reading = _LATER

    def copy(self, array: CapturedArray, into: Any = None) -> Any:
        """The array itself, of which no launch may take the memory again, or the NumPy array that it is copied into."""
        array._storage.copied = True
        if into is None:
            return array
        if isinstance(into, np.ndarray):
            if into.shape != array.shape or into.dtype != array.dtype:
                raise ValueError(f"cannot copy {array.dtype}{list(array.shape)} into {into.dtype}{list(into.shape)}")
            self._filled[id(into)] = (into, array)
        return into

    def view(self, value: np.ndarray) -> View | None:
        """Where a NumPy array's contents are after the run, if it was copied into or given to a launch."""
        if id(value) in self._filled:
            return self.view_of(self._filled[id(value)][1])
        known = self._recorder.host_arrays.get(id(value))
        return None if known is None else self.view_of(known.device)

    def view_of(self, array: CapturedArray) -> View:
        """Where a device array lies."""
        self._recorder.pointer(array, "", reading=True)
        name = self._recorder.name_of(array)
        assert name is not None
        return View(name, array._offset, array.dtype, array.shape, array.strides)

    def described(self, value: Any) -> Any:
        """What the host function returned, with Views in place of arrays that the run has yet to fill."""
        if isinstance(value, CapturedArray):
            return self.view_of(value)
        if isinstance(value, np.ndarray):
            return self.view(value) or value
        if isinstance(value, dict):
            return {key: self.described(item) for key, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self.described(item) for item in value)
        return value if isinstance(value, np.generic | int | float | complex | str | bytes | None) else repr(value)
