"""Warplab: write GPU kernels, run them anywhere, and see where their time and bytes go."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warplab.emulator.emulate import EmulateError, emulate
    from warplab.emulator.result import Result
    from warplab.errors import WarplabError
    from warplab.own_kernels.run import OwnCodeError, run, run_file
    from warplab.plan.execution import Counters, Finding, FindingKind

__version__ = "0.2.0"
__all__ = [
    "Counters",
    "EmulateError",
    "Finding",
    "FindingKind",
    "OwnCodeError",
    "Result",
    "WarplabError",
    "emulate",
    "run",
    "run_file",
]
_PLACES = {
    "Counters": "plan.execution",
    "EmulateError": "emulator.emulate",
    "Finding": "plan.execution",
    "FindingKind": "plan.execution",
    "OwnCodeError": "own_kernels.run",
    "Result": "emulator.result",
    "WarplabError": "errors",
    "emulate": "emulator.emulate",
    "run": "own_kernels.run",
    "run_file": "own_kernels.run",
}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: most of the package needs no emulator."""
    if name in _PLACES:
        try:
            return getattr(import_module(f"warplab.{_PLACES[name]}"), name)
        except ModuleNotFoundError as missing:
            if missing.name != "cloudpickle":
                raise
            message = f"warplab.{name} records kernels with CUDA's compilers: pip install 'warplab[cuda]'"
            raise ImportError(message) from None
    raise AttributeError(f"module 'warplab' has no attribute {name!r}")
