"""Which operator of a model is running: the name of the innermost module, kept up to date by hooks."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from torch import nn


class Names:
    """While entered, `current` is the last part of the name of the leaf module that runs, "" outside of all.

    It follows modules that a checkpoint runs again in the backward pass as well.
    """

    def __init__(self, model: nn.Module) -> None:
        self._leaves = {module: name for name, module in model.named_modules() if not any(module.children())}
        self._handles: list[Any] = []
        self.current = ""
        self.path = ""

    def __enter__(self) -> Names:
        for module in self._leaves:
            self._handles.append(module.register_forward_pre_hook(self._enter))
            # Also where it stops early: a checkpoint ends its second forward pass with an exception.
            self._handles.append(module.register_forward_hook(self._leave, always_call=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _enter(self, module: nn.Module, inputs: Any) -> None:
        self.path = self._leaves[module]
        self.current = self.path.rsplit(".", 1)[-1]

    def _leave(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self.path = self.current = ""
