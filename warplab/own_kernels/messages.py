"""What a run asks of its child process, and what that answers: plain data, and the user's own code as a pickle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from warplab.plan.model import Plan


@dataclass(frozen=True)
class OwnCall:
    """What to run: a pickle of (function, arguments, keywords), or `function` of a file, on the file's ARGUMENTS.

    `spoiled` are the copies of NumPy arrays to the device whose originals are overwritten when they are made.
    `names` are the parameters that the arguments are for. `texts` has the sources of functions that lie in no file, by
    the names that their code objects have. With `launch`, (grid, block, bytes of shared memory), the function is a
    kernel. Without `optimise` compilers keep all that the source has.
    """

    architecture: str
    pickled: bytes = b""
    names: tuple[str, ...] = ()
    launch: tuple[Any, Any, int] | None = None
    file: str = ""
    function: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    spoiled: frozenset[int] = frozenset()
    optimise: bool = True


@dataclass(frozen=True)
class View:
    """An array that the host function has returned: where it lies in a buffer of the plan."""

    buffer: str
    offset: int
    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Recorded:
    """A run that was recorded.

    `arguments` maps a parameter to its array after the run; `returned` holds Views; `copies` are the buffers that NumPy
    arrays were copied to because a launch was given them; `printed` is what the host function printed.
    """

    plan: Plan
    arguments: dict[str, View]
    returned: Any
    copies: tuple[str, ...]
    places: tuple[tuple[int, str], ...]  # the files in the plan's source: the line before each one's first, its name
    printed: str = ""


@dataclass(frozen=True)
class Failed:
    """A run that could not be recorded, in one sentence; `line` of `file`, where known."""

    message: str
    file: str = ""
    line: int = 0
