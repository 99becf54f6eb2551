"""Typical slips, put into every solution that has a place for them: each is a Mistake, with what must be said first.

A slip is found line by line in a solution. What must be said first follows from its kind: a missing barrier is named,
with lines between which it stood; a bound that is one too far or indices in the wrong order lead to the access that
leaves its array; a wait, a commit or an arrival that is missing is named, or what it is of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpus.judge.mutants.mutant import Edit
from corpus.mistakes.mistake import Mistake

SOLUTIONS = Path(__file__).parents[2] / "solutions"
_COMMENT = r"\s*(?:(?:#|//).*)?$"
_BARRIER = re.compile(rf"^(\s*)(cuda\.syncthreads\(\)|__syncthreads\(\);){_COMMENT}")
_WARP_BARRIER = re.compile(rf"^(\s*)(cuda\.syncwarp\(\)|__syncwarp\(\);){_COMMENT}")
_BOUND = re.compile(r"^(\s*if [^<]*) < ((?:\w+\.(?:size|shape\[\d\])|[mn])\b.*)$")
_STORE = re.compile(r"^(\s*)(out|c)\[([^\[\],]+), ([^\[\],]+)\]( = .*)$")
_START = re.compile(r"^(\s+)(\w+) = (?:float32\(0(?:\.0)?\)|0\.0)\s*(?:#.*)?$")
_ATOMIC = re.compile(r"^(\s*)cuda\.atomic\.add\((\w+), (.+), ([^,]+)\)$")
_GRID = re.compile(r"^(\s*\w+ = )cuda\.grid\(1\)$")
_ROUNDED_UP = re.compile(r"^(    (?:blocks = |\w+_kernel\[).*?)\((\w+(?:\.\w+| \* \w+)*) \+ (\w+) - 1\) // \3(.*)$")
_LAUNCH = re.compile(r"^(\s*\w+\[)([^\[\],()]+), ([A-Z_]+)(\]\(.*)$")
# Calls that order copies, products and blocks: the kind of the slip without one, its name, what must be said first.
_CALLS = {
    "no_product_fence": (r"wgmma_fence", "ptx.wgmma_fence"),
    "no_proxy_fence": (r"fence_proxy_async", "fence_proxy_async"),
    "no_product_commit": (r"wgmma_commit|products_commit|commit_products", "wgmma"),
    "no_product_wait": (r"wait_for_(?:all|all_but_one|older|products)", "wgmma"),
    "no_copy_commit": (r"(?:cp_async_)?commit(?=\(\))", "commit"),
    "no_product_arrival": (r"commit(?=\([^)])", "mbarrier"),
    "no_copy_wait": (r"wait_for_next_stage", "wait_group"),
    "no_store_wait": (r"bulk_commit|wait_for_(?:older_)?stores", "bulk"),
    "not_awaited": (r"(?:mbarrier_)?wait(?!\((?:signals|of)\b)", "mbarrier"),
    "no_wait_for_signal": (r"wait(?=\((?:signals|of)\b)", "nothing orders the two"),
    "no_arrival": (r"mbarrier_arrive(?:_remote)?|arrive", "mbarrier"),
    "no_expectation": (r"mbarrier_arrive_expect_tx|arrive_expecting|expect", "mbarrier"),
    "no_cluster_barrier": (r"cluster_(?:sync|arrive|wait)|sync_blocks", "barrier"),
    "no_wait_for_blocks": (r"wait_for_(?:all_blocks|inputs)", "nothing orders the two"),
}
# Their warps' barriers stand mostly before what all lanes execute together anyway.
_TOGETHER = ("08_hopper_hgemm", "09_fp8_gemm", "11_grouped_gemm", "19_blackwell_gemm")
# Barriers that a later one makes needless, or what a pair of blocks meets at: its allocation and its last commit.
_NEEDLESS = {
    "10_index_shuffle/rung_3_three_launches/99",
    "10_index_shuffle/submission/181",
    "19_blackwell_gemm/rung_5_pair/150",
    "19_blackwell_gemm/rung_5_pair/177",
    "19_blackwell_gemm/rung_6_two_accumulators/151",
    "19_blackwell_gemm/submission/292",
    "19_blackwell_gemm/submission/307",
}
_BETWEEN = re.compile(r"put \S+ between lines (\d+) and (\d+)")
_WITHIN = re.compile(r"\(through line (\d+)\)")
_AROUND = re.compile(r"put \S+ after line (\d+), before the loop comes back to line (\d+)")

# The line with the slip, what must be said first and what must not.
_Found = tuple[str, str, tuple[str, ...]]


@dataclass(frozen=True)
class Slip(Mistake):
    """A slip in line `number`, of a kind. A barrier that stood there has to be asked for there."""

    number: int = 0
    kind: str = ""

    def objections(self, opening: str) -> list[str]:
        """Also whether the lines between which a barrier is to be put have the slip's between them."""
        found = super().objections(opening)
        if not self.kind.endswith("barrier"):
            return found
        if between := _BETWEEN.search(opening):
            first, last = int(between[1]), int(between[2])
            # A barrier at the end of a function may as well stand behind the call.
            called = any(int(line) < self.number < int(line) + 3 for line in _WITHIN.findall(opening))
            fits = called or first < self.number < last
            found += [] if fits else [f"the barrier stood in line {self.number}"]
        if around := _AROUND.search(opening):
            end, begin = int(around[1]), int(around[2])
            found += [] if self.number > end or self.number < begin else [f"the barrier stood in line {self.number}"]
        return found


def slips(base: Path) -> Iterator[Slip]:
    """The slips that a solution has places for, in the order of its lines; the fix is to put the line back."""
    lines = base.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        for kind, find in KINDS.items():
            if _costs_nothing(base, kind, number):
                continue
            if found := find(line, lines[: number - 1], lines[number:]):
                new, first, never = found
                changed = "\n".join([*lines[: number - 1], new, *lines[number:]])
                edit = Edit("\n".join(lines), changed)
                name = f"{kind}_line_{number}"
                yield Slip(base, base.parent.name, name, (edit,), "", first, never, number=number, kind=kind)
                break


def _costs_nothing(base: Path, kind: str, number: int) -> bool:
    """Whether the slip changes nothing in that line, or nothing that the emulator sees."""
    lab = base.parent.name
    if kind in _CALLS and lab < "07":
        return True  # lab 05 calls them for rows so long that the emulator has none of them
    if base.stem == "rung_1_one_block" and kind in ("no_barrier", "no_wait_for_blocks"):
        return True  # it has no other block to wait for, and rung 2 has the same code
    if kind == "thread_for_grid" and lab in ("05_softmax", "20_compaction"):
        return True  # the small cases have no more than one block's share
    if kind == "no_warp_barrier" and lab in _TOGETHER:
        return True
    return f"{lab}/{base.stem}/{number}" in _NEEDLESS


def _no_barrier(line: str, before: Sequence[str], behind: Sequence[str]) -> _Found | None:
    found = _BARRIER.match(line)
    if not found:
        return None
    if any("red.release" in one for one in behind[:3]):
        return None  # one warp stored all that it signals, and across blocks the emulator takes a warp for a thread
    releases = any("store_release" in one or "st.release" in one for one in behind[:3])
    if releases or any("ld.acquire" in one or "load_acquire" in one for one in before[-12:]):
        return "", "before the signal and after the wait", ("syncwarp", "atomic")
    return _nothing(found[1], found[2]), f"put {found[2].rstrip(';')}", ("syncwarp", "atomic")


def _no_warp_barrier(line: str, before: Sequence[str], behind: Sequence[str]) -> _Found | None:
    found = _WARP_BARRIER.match(line)
    signals = [*(one for one in before[-5:] if "load_acquire" in one), *(one for one in behind[:3] if "release" in one)]
    if signals:
        return None  # across blocks the emulator takes a warp for a thread
    return (_nothing(found[1], found[2]), f"{found[2].rstrip(';')}", ("syncthreads",)) if found else None


def _one_too_far(line: str, before: Sequence[str], behind: Sequence[str]) -> _Found | None:
    found = _BOUND.match(line)
    return (f"{found[1]} <= {found[2]}", "compare the index with the array's size", ("atomic",)) if found else None


def _swapped(line: str, before: Sequence[str], behind: Sequence[str]) -> _Found | None:
    found = _STORE.match(line)
    if not found or found[3] == found[4]:
        return None
    return f"{found[1]}{found[2]}[{found[4]}, {found[3]}]{found[5]}", "or swap its two indices", ("atomic",)


def _not_started(line: str, before: Sequence[str], behind: Sequence[str]) -> _Found | None:
    found = _START.match(line)
    if not found or any(re.match(rf"\s+{found[2]} \+?=", one) for one in before):
        return None
    return (f"{found[1]}pass", f"'{found[2]}'", ()) if any(f"{found[2]} +=" in later for later in behind) else None


def _not_atomic(line: str, before: Sequence[str], behind: Sequence[str]) -> _Found | None:
    found = _ATOMIC.match(line)
    return (f"{found[1]}{found[2]}[{found[3]}] += {found[4]}", "cuda.atomic.add", ("syncwarp",)) if found else None


def _thread_for_grid(line: str, before: Sequence[str], behind: Sequence[str]) -> _Found | None:
    found = _GRID.match(line)
    end = next((at for at, one in enumerate(behind) if one[:1] not in ("", " ", "#")), len(behind))
    if not found or any("blockIdx" in one or "cuda.grid" in one for one in behind[:end]):
        return None
    return f"{found[1]}cuda.threadIdx.x", "use cuda.grid(1)", ("syncthreads", "cover")


def _rounded_down(line: str, before: Sequence[str], behind: Sequence[str]) -> _Found | None:
    found = _ROUNDED_UP.match(line)
    start = max((at for at, one in enumerate(before) if one.startswith("def ")), default=0)
    if start and before[start - 1].startswith("@"):
        return None  # steps of a loop in a kernel, no blocks
    return (f"{found[1]}{found[2]} // {found[3]}{found[4]}", "round up", ()) if found else None


def _launch_swapped(line: str, before: Sequence[str], behind: Sequence[str]) -> _Found | None:
    found = _LAUNCH.match(line)
    if not found or found[2] == found[3]:
        return None
    return f"{found[1]}{found[3]}, {found[2]}{found[4]}", "The number of blocks comes first", ()


def _without(name: str, first: str) -> Callable[[str, Sequence[str], Sequence[str]], _Found | None]:
    """Leaves out a call of a function of that name."""
    call = re.compile(rf"^(\s+)(?:ptx\.)?(?:{name})\(.*\)(;?){_COMMENT}")

    def find(line: str, before: Sequence[str], behind: Sequence[str]) -> _Found | None:
        found = call.match(line)
        return (_nothing(found[1], found[2]), first, ("atomic",)) if found else None

    return find


def _nothing(indent: str, statement: str) -> str:
    """What takes the place of a statement: nothing in CUDA C++, whose statements end in a semicolon."""
    return "" if statement.endswith(";") else f"{indent}pass"


KINDS: dict[str, Callable[[str, Sequence[str], Sequence[str]], _Found | None]] = {
    "no_barrier": _no_barrier,
    "no_warp_barrier": _no_warp_barrier,
    "one_too_far": _one_too_far,
    "swapped": _swapped,
    "not_started": _not_started,
    "not_atomic": _not_atomic,
    "thread_for_grid": _thread_for_grid,
    "rounded_down": _rounded_down,
    "launch_swapped": _launch_swapped,
    **{kind: _without(name, first) for kind, (name, first) in _CALLS.items()},
}


def all_slips() -> Iterator[Slip]:
    """Those of every solution of the labs that ask for kernels."""
    for base in sorted(SOLUTIONS.glob("*/*.py")):
        if base.parent.name != "18_break_the_judge":
            yield from slips(base)
