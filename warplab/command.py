"""`warplab run`: a file's kernels on the emulator, and what they waste."""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warplab.errors import WarplabError

if TYPE_CHECKING:
    from warplab.emulator.result import Result

CLEAN, FOUND, USAGE_ERROR = 0, 1, 2
HOPPER = ("sm_90", "sm_90a")
MOST_TIMED = 20_000_000  # warp instructions: a few seconds of the emulator
EXIT_CODES = """\
exit codes:
  0  it ran, and nothing was found
  1  it ran, and there are findings
  2  wrong usage, no such file, or code that cannot be run, or was stopped
"""
ABOUT_RUN = """\
A Python file: calls its main(), or FUNCTION, with what its ARGUMENTS = (...) hold, if it has any.
A PTX file: launches one of its kernels, for example
  warplab run kernel.ptx --entry saxpy --grid 8 --block 128 --arg 2.0 --arg x.npy --arg y.npy
"""
_WHOLE = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|\d+)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        result = _emulated(options) if options.file.suffix == ".ptx" else _called(options)
        saved = _save(result, options.out)
        if options.html or options.open:
            _microscope(result, options.html, options.open)
    except WarplabError as error:
        print(f"warplab run: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        print("warplab run: stopped by you, nothing was run.", file=sys.stderr)
        return USAGE_ERROR
    print(result)
    if time := _time(result):
        print(time)
    if saved:
        print(f"Arrays are in {options.out}: {', '.join(saved)}")
    return FOUND if any(finding.is_fault for finding in result.findings) else CLEAN


def _time(result: Result) -> str:
    """How long it takes on an H200, by the model; nothing for what is wrong, too long to run again, or for others."""
    wrong = any(finding.is_fault for finding in result.findings)
    if wrong or result.architecture not in HOPPER or not 0 < result.counters.warp_instructions <= MOST_TIMED:
        return ""
    model = result.estimate()
    value, low, high = (f"{seconds * 1e6:.3g}" for seconds in (model.seconds, *(model.interval or ())))
    bounds = ", ".join(dict.fromkeys(launch.bound.name for launch in model.launches))
    return f"Time\n  modelled on an H200, not measured: {value} µs ({low} to {high}); longest: {bounds}"


def _called(options: argparse.Namespace) -> Result:
    """A Python file's host function. Raises WarplabError."""
    given = [f"--{n}" for n in ("entry", "grid", "block", "arg", "shared", "target") if getattr(options, n)]
    if given:
        raise WarplabError(f"{', '.join(given)}: only a kernel of a .ptx file is launched from here.")
    try:
        from warplab import run_file
    except ImportError as missing:
        raise WarplabError(f"{missing}.") from None
    return run_file(
        options.file,
        options.function,
        seed=options.seed,
        orders=options.orders,
        optimise=options.optimise,
        timeout=options.timeout,
    )


def _emulated(options: argparse.Namespace) -> Result:
    """A kernel of a PTX file. Raises WarplabError."""
    from warplab.emulator.emulate import emulate

    if options.function:
        raise WarplabError(f"'{options.function}': name the kernel of a .ptx file with --entry.")
    if not options.optimise:
        raise WarplabError("A .ptx file is compiled already: leave out --no-optimisation.")
    missing = [f"--{name}" for name in ("grid", "block") if not getattr(options, name)]
    if missing:
        raise WarplabError(f"A kernel of a .ptx file needs its launch: add {' and '.join(missing)}.")
    values = [_value(text) for text in options.arg]
    return emulate(
        options.file,
        options.entry,
        grid=options.grid,
        block=options.block,
        args=values,
        shared=options.shared,
        target=options.target,
        seed=options.seed,
        orders=options.orders,
    )


def _value(text: str) -> Any:
    """An argument: a whole number, a number, or the array of an .npy file."""
    if _WHOLE.fullmatch(text):
        return int(text, 0)
    try:
        return float(text)
    except ValueError:
        pass
    import numpy as np

    try:
        return np.load(text, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise WarplabError(f"--arg {text} is neither a number nor an .npy file that can be read ({error}).") from None


def _save(result: Result, folder: Path | None) -> list[str]:
    """Write each array as NAME.npy, if a folder is given; gives the files' names."""
    if folder is None:
        return []
    import numpy as np

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in result.outputs.items():
            np.save(folder / f"{name}.npy", array)
    except OSError as error:
        raise WarplabError(f"The arrays cannot be written to {folder} ({error.strerror}).") from None
    return [f"{name}.npy" for name in result.outputs]


def _microscope(result: Result, file: Path | None, opened: bool) -> None:
    """Write the page of the first launch's first block, and show it in a browser. Raises WarplabError."""
    if file is None:
        handle, name = tempfile.mkstemp(".html", "warplab-microscope-")
        os.close(handle)
        file = Path(name)
    try:
        result.profile().microscope().save(file)
    except OSError as error:
        raise WarplabError(f"The page cannot be written to {file} ({error.strerror}).") from None
    if opened and not webbrowser.open(file.resolve().as_uri()):
        print(f"No browser opens here: open {file} in one.")


def _sizes(text: str) -> tuple[int, ...]:
    """Up to three whole numbers: 8 or 8,4 or 8,4,2."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not one to three whole numbers such as 8 or 8,4") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("warplab", description="Kernels of your own on the emulator.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run", help="run a file's host function or a PTX file's kernel", description=ABOUT_RUN, epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    run.add_argument("file", type=Path, help="a Python file with Numba or CuPy kernels, or a .ptx file")
    run.add_argument("function", nargs="?", default="", help="the host function to call (default: main)")
    run.add_argument("--entry", default="", help="the kernel of a .ptx file (default: the only one)")
    run.add_argument("--grid", type=_sizes, help="blocks of the grid: 8 or 8,4,2")
    run.add_argument("--block", type=_sizes, help="threads of a block: 128 or 32,8")
    run.add_argument("--arg", action="append", default=[], help="the kernel's next argument: a number or an .npy file")
    run.add_argument("--shared", type=int, default=0, help="bytes of dynamic shared memory")
    run.add_argument("--target", default="", help="the architecture to emulate (default: the PTX's own)")
    run.add_argument("--out", type=Path, help="a folder to write the arrays to, as NAME.npy")
    run.add_argument("--html", type=Path, help="write a page to step through the first block: its warps, lanes, memory")
    run.add_argument("--open", action="store_true", help="show that page in a browser")
    run.add_argument("--seed", type=int, help="draw the order of warps and asynchronous operations from this number")
    run.add_argument("--orders", type=int, default=1, help="run so many orders of blocks and warps: 4 as a grade does")
    run.add_argument(
        "--no-optimisation", dest="optimise", action="store_false", help="find faults of what compilers drop"
    )
    run.add_argument("--timeout", type=float, default=120.0, help="seconds for the host code (default: 120)")
    return parser
