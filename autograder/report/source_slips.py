"""Slips that a submission's text shows and its counters and outputs only follow: each a sentence, or nothing.

The text is a stranger's, so it is looked through line by line and not parsed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

from autograder.records.outcome import FirstWrong
from autograder.records.report import PartResult
from autograder.records.status import Status
from warplab.plan.execution import Extent, Finding

_UNCALLED = re.compile(r"^\s*(cuda\.sync(?:threads|warp)|__sync(?:threads|warp))\s*;?\s*(?:#.*|//.*)?$")
_DEFINITION = re.compile(r"def (\w+)\(|(?:extern \"C\" )?__(?:global|device)__\s.*?\b(\w+)\s*\(")
_BLOCK = re.compile(r"\bblockIdx\b|cuda\.grid\(|this_grid|\bclusterid\b|\bctaid\b|=.*atomic")
_OWN_INDEX = re.compile(
    r"^\s+(?:(?:unsigned |const )*(?:int|unsigned) )?\w+ = (?:cuda\.)?threadIdx\.x;?\s*(?:#.*|//.*)?$"
)
_CALLED = re.compile(r"\b(\w+)\(")
_ONE = re.compile(r"^[ \t]*(\w+) = \(?1(?:, 1)*,?\)?[ \t]*(?:#.*)?$", re.MULTILINE)
_LAUNCH = re.compile(r"\b(\w+)(?:[\"']\))?[\[(]\(?(\w+)")
_GOTTEN = re.compile(r"^[ \t]*(\w+) = .*\([\"'](\w+)[\"']\)", re.MULTILINE)
_PRINTS = re.compile(r"^\s*(?:if\b.*[:)]\s*)?(printf?)\s*\(")
_UNOPTIMISED = re.compile(r"@cuda\.jit\(.*(?:\bopt\s*=\s*False|\bdebug\s*=\s*True)")
_ARRAY_OF = re.compile(
    r"cuda\.(?:shared|local)\.array\(.*,\s*(?:dtype\s*=\s*)?(?:[\w.]+\.)?(u?int\d*|b?float16)\b"
    r"|^\s*__shared__\s+(int|__half|half|__nv_bfloat16)\b"
)
_BITS = {"float16": 11, "half": 11, "__half": 11, "bfloat16": 8, "__nv_bfloat16": 8}
_LOCAL = ("local_load_sectors", "local_store_sectors")


def uncalled_barrier(lines: Sequence[str]) -> str:
    """A barrier that is named and not called."""
    for number, line in enumerate(lines, 1):
        if m := _UNCALLED.match(line):
            return f"Line {number} names {m[1]} and does not call it: write {m[1]}()."
    return ""


def not_written(text: str, starter: str, functions: Sequence[str]) -> tuple[str, ...]:
    """The functions of Python whose lines are those of the starter, or that are not defined."""
    written, given = text.split("\n"), starter.split("\n")
    return tuple(name for name in functions if _function(written, name) in ([], _function(given, name)))


def _function(lines: Sequence[str], name: str) -> list[str]:
    """The lines of a function at the file's top level, its last definition, without blank lines and comments."""
    found: list[str] = []
    inside = False
    for line in lines:
        if line[:1] not in ("", " ", "\t", "#", ")"):
            inside = line.startswith(f"def {name}(")
            found = [] if inside else found
        if inside and (code := line.strip()) and not code.startswith("#"):
            found.append(code)
    return found


def same_in_every_block(lines: Sequence[str], correctness: PartResult, finding: Finding | None) -> str:
    """A kernel of several blocks whose indices come from threadIdx alone, where elements or an order are missing."""
    unwritten = {c.first_wrong.output for c in correctness.cases if c.first_wrong and c.first_wrong.unwritten}
    between_blocks = finding is not None and finding.extent in (Extent.GRID, Extent.LAUNCH)
    functions = _functions(lines)
    helpers = {name for name, start, end in functions if _BLOCK.search("\n".join(lines[start:end]))}
    others = helpers | _of_one_block("\n".join(lines))
    for name, start, end in functions:
        body = "\n".join(lines[start:end])
        number = next((at for at in range(start, end) if _OWN_INDEX.search(lines[at])), None)
        if number is None or name in others or not helpers.isdisjoint(_CALLED.findall(body)):
            continue
        if not _is_kernel(lines, start):
            continue
        stores = any(re.search(rf"\b{output}\[", body) for output in unwritten)
        if stores or finding is None or between_blocks and start < finding.line <= end:
            index = "cuda.grid(1)" if "cuda." in lines[number] else "blockIdx.x * blockDim.x + threadIdx.x"
            return (
                f"Line {number + 1}: threadIdx counts from 0 in every block, so all blocks do the same elements: "
                f"use {index}."
            )
    return ""


def _is_kernel(lines: Sequence[str], start: int) -> bool:
    """Whether the function that begins there is launched. One for the device may be given its block's place."""
    first = next((at for at in range(start - 1, -1, -1) if not lines[at].startswith((" ", ")", "#"))), start)
    decorator = "".join(lines[first:start]).replace(" ", "")
    return "__device__" not in lines[start] and "device=True" not in decorator


def _of_one_block(text: str) -> set[str]:
    """The kernels that some launch gives one block, as a number or by a name that the text gives one."""
    ones = {"1", *_ONE.findall(text)}
    found = {name for name, blocks in _LAUNCH.findall(text) if blocks in ones}
    return found | {kernel for name, kernel in _GOTTEN.findall(text) if name in found}


def _functions(lines: Sequence[str]) -> list[tuple[str, int, int]]:
    """Names of functions at the top level of Python or of a text in C++, with where their lines begin and end."""
    found = [(m[1] or m[2], at) for at, line in enumerate(lines) if (m := _DEFINITION.match(line))]
    ends = [at for _, at in found[1:]] + [len(lines)]
    return [(name, at, end) for (name, at), end in zip(found, ends, strict=False)]


def overwritten_output(lines: Sequence[str], correctness: PartResult) -> str:
    """A name of an output that a kernel gives to a number, so that the array is never stored to."""
    outputs = {c.first_wrong.output for c in correctness.cases if c.first_wrong and c.first_wrong.unwritten}
    for name in sorted(outputs):
        slip = re.compile(rf"\s+{re.escape(name)}\s*=(?!=)")
        for number, line in enumerate(lines, 1):
            if slip.match(line):
                return f"Line {number}: '{name}' is an array: store to an element of it, as in {name}[i] = ..."
    return ""


def cost_of_printing(lines: Sequence[str], traffic: PartResult) -> str:
    """A kernel's print, which puts its arguments into local memory."""
    return _first(lines, _PRINTS, traffic, "prints, which costs local memory: remove it before grading")


def unoptimised(lines: Sequence[str], traffic: PartResult) -> str:
    """A kernel that the compiler was told not to optimise."""
    for number, line in enumerate(lines, 1):
        if (m := _UNOPTIMISED.search(line)) and _uses_local_memory(traffic):
            option = "opt=False" if "opt" in m[0] else "debug=True"
            return f"Line {number}: {option} keeps every variable in local memory: remove it."
    return ""


def narrow_array(lines: Sequence[str], correctness: PartResult, dtypes: Collection[str]) -> str:
    """An array of a kernel's own whose type holds less than what the lab computes with: `dtypes` are its arguments'."""
    wrong = [case for case in correctness.cases if case.first_wrong]
    cut = any(_is_cut(case.first_wrong) for case in wrong if case.first_wrong)
    close = any("lower precision" in case.cause for case in wrong)
    for number, line in enumerate(lines, 1):
        m = _ARRAY_OF.search(line)
        name = (m[1] or m[2]) if m else ""
        if cut and "int" in name and not any("int" in dtype for dtype in dtypes):
            return f"Line {number}: an array of {name} cuts fractions off: make it {_like(name)}."
        if close and _BITS.get(name) and not any(dtype in ("float16", "bfloat16") for dtype in dtypes):
            return f"Line {number}: an array of {name} keeps {_BITS[name]} bits of each number: make it {_like(name)}."
    return ""


def _like(name: str) -> str:
    return "float" if name in ("int", "half", "__half", "__nv_bfloat16") else "float32"


def _is_cut(first: FirstWrong) -> bool:
    """Whether a result is a whole number that should be none."""
    return math.isfinite(first.got) and first.got == int(first.got) and first.expected != round(first.expected)


def is_vague(cause: str) -> bool:
    """Whether the cause of a wrong answer names no pattern that leads somewhere."""
    return not cause or cause.startswith(("The wrong elements are scattered", "Nearly every element"))


def _first(lines: Sequence[str], slip: re.Pattern[str], traffic: PartResult, words: str) -> str:
    for number, line in enumerate(lines, 1):
        if slip.match(line) and _uses_local_memory(traffic):
            return f"Line {number} {words}."
    return ""


def _uses_local_memory(traffic: PartResult) -> bool:
    over = [budget for budget in traffic.budgets if not budget.passed]
    return (
        traffic.status is Status.OVER_BUDGET
        and any(name in b.parts for b in over for name in _LOCAL)
        or any(budget.counter in ("local_sectors", *_LOCAL) for budget in over)
    )
