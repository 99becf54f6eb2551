"""A Python file that lies outside the packages, as a module: a solution, a reader's own submission."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def module_of(path: Path) -> ModuleType:
    """Run the file and give its module, which sys.modules does not keep. Raises what the file raises, or OSError."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
