"""`python -m warplab run FILE`: a file's kernels on the emulator, and what they waste."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from warplab.errors import WarplabError
from warplab.own_kernels.run import run_file

CLEAN, FOUND, USAGE_ERROR = 0, 1, 2
EXIT_CODES = """\
exit codes:
  0  it ran, and nothing was found
  1  it ran, and there are findings
  2  wrong usage, no such file, or code that cannot be run
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        result = run_file(options.file, options.function, seed=options.seed, timeout=options.timeout)
    except WarplabError as error:
        print(f"warplab run: {error}", file=sys.stderr)
        return USAGE_ERROR
    print(result)
    return FOUND if result.findings else CLEAN


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m warplab", description="Kernels of your own on the emulator.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run", help="run a file's host function", epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Calls the file's main(), or FUNCTION, with what its ARGUMENTS = (...) hold, if it has any.",
    )  # fmt: skip
    run.add_argument("file", type=Path, help="a Python file with Numba or CuPy kernels")
    run.add_argument("function", nargs="?", default="", help="the host function to call (default: main)")
    run.add_argument("--seed", type=int, help="draw the order of warps and asynchronous operations from this number")
    run.add_argument("--timeout", type=float, default=120.0, help="seconds for the host code (default: 120)")
    return parser
