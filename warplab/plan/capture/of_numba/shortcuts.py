"""Spares Numba work that it does again and again while it compiles here; the code that comes out is the same.

A submission of many device functions takes seconds to compile, and a quarter of those went to a few answers: what size
a type has, for which Numba has LLVM parse a module each time, which node of debug information is there already, which
flags are set, and which of an operator's many definitions takes arguments of these types. They are kept in the memory
of the capture process, which ends with its submission.
"""

from __future__ import annotations

from typing import Any

from warplab.plan.capture.of_numba.insides import ConfigStack, DIValue, LLVMType, TargetConfig, types


def install() -> None:
    """Replace the slow parts. Called once, before anything is compiled."""
    _remember_layout("get_abi_size")
    _remember_layout("get_abi_alignment")
    _remember_hashes()
    _read_flags_at_once()
    _remember_types_of_calls()


def _remember_layout(name: str) -> None:
    """Let a type's size or alignment be asked of LLVM once; a type says itself what it consists of, by its text."""
    slow = getattr(LLVMType, name)
    known: dict[tuple[Any, str], int] = {}

    def fast(self: Any, target_data: Any, context: Any = None) -> int:
        text = str(self)
        if context is not None or "%" in text:  # a struct that is named has its elements elsewhere
            return slow(self, target_data, context)
        found = known.get((target_data, text))
        if found is None:
            found = known[target_data, text] = slow(self, target_data)
        return found

    setattr(LLVMType, name, fast)


def _remember_hashes() -> None:
    """Let a node of debug information, which never changes, hash what it refers to once and not at every look-up."""
    slow = DIValue.__hash__

    def fast(self: Any) -> int:
        found = self.__dict__.get("_warplab_hash")
        if found is None:
            found = self._warplab_hash = slow(self)
        return found

    DIValue.__hash__ = fast


def _read_flags_at_once() -> None:
    """Let flags be read from their table instead of one by one; they are compared for every call that is typed."""
    defaults: dict[type, dict[str, Any]] = {}

    def values(self: Any) -> dict[str, Any]:
        kind = type(self)
        if kind not in defaults:
            defaults[kind] = {name: option.default for name, option in kind.options.items()}
        return defaults[kind] | self._values

    TargetConfig.values = values


def _remember_types_of_calls() -> None:
    """Let the definitions of an operator or a function of Numba's own be tried once for the same types and flags."""
    slow = types.BaseFunction.get_call_type
    known: dict[Any, Any] = {}

    def fast(self: Any, context: Any, args: Any, kws: Any) -> Any:
        key = self, context, tuple(args), tuple(dict(kws).items()), ConfigStack.top_or_none()
        found = known.get(key)
        if found is None:
            found = known[key] = slow(self, context, args, kws)
        return found

    types.BaseFunction.get_call_type = fast
