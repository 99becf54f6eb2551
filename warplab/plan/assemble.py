"""Makes machine code of a plan's PTX, on the trusted side and at known flags: ptxas, else nvJitLink.

The figures that come with it (registers, spills, stack, shared memory) are the assembler's own, so a submission
cannot forge them. Nothing is linked: PTX that calls what it does not contain is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from warplab.errors import CompileError, PlanError, WarplabError
from warplab.isa.entry import entries, externals, line_of, without_printing
from warplab.isa.text import PtxError
from warplab.plan import assembler, cache
from warplab.plan.assembler_words import in_words
from warplab.plan.limits import limits_of
from warplab.plan.model import Cubin, Kernel, Plan

CACHE_KIND = "cubin-3"  # of the cache; a new number when what is kept changes
_TIMEOUT = 60.0  # seconds for one text

# What ptxas says of a module, from the start of each line: the names and pragmas that it repeats are the submission's.
_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"(?:ptxas info\s*: )?Function properties for (\S+)\s*$")
_STACK = re.compile(r"(?:ptxas +\.)?\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"ptxas info\s*: Used (\d+) registers(.*)$")
_LINKED = re.compile(r"info\s*: Function properties for '([^']+)'")
_LINKED_SHARED = re.compile(r"info\s*: used \d+ registers.*?(\d+) bytes smem")
_SHARED = re.compile(r"(\d+) bytes smem")
_CUMULATIVE = re.compile(r"(\d+) bytes cumulative stack size")
_ERROR = re.compile(r"^ptxas (?:.*?, line (\d{1,9}); )?(?:error|fatal)\s*: (.*)$", re.MULTILINE)
_MOST_WORDS = 300  # characters of the assembler's own
_MOST_CODE = 24 << 20  # bytes of machine code in one plan, where every kernel has a copy of its module's


@dataclass(frozen=True)
class Figures:
    """What the assembler reports of one kernel; bytes per thread, shared memory per block."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    static_shared: int


@dataclass(frozen=True)
class AssemblyLimits:
    """What the plans of one submission may take of the assembler, all together.

    The submissions of the course have at most nine texts of 470,000 characters, which take 1 s altogether.
    """

    texts: int = 128
    characters: int = 8 << 20
    seconds: float = 120.0
    code: int = 64 << 20  # bytes


@dataclass
class Budget:
    """What one submission has taken of its limits: texts, characters of PTX, seconds, bytes of machine code.

    A text that several kernels or plans share is assembled, counted and kept once.
    """

    limits: AssemblyLimits = AssemblyLimits()
    texts: int = 0
    characters: int = 0
    seconds: float = 0.0
    code: int = 0
    done: dict[str, tuple[bytes, Mapping[str, Figures]]] = field(default_factory=dict)  # by key in the cache

    def take(self, characters: int) -> None:
        """Count a text. Raises CompileError if it is one too many."""
        self.texts += 1
        self.characters += characters
        if self.texts > self.limits.texts:
            raise CompileError(f"The submission has more than {self.limits.texts} different kernels: use fewer.")
        if self.characters > self.limits.characters:
            raise CompileError(
                f"The submission's kernels have more than {self.limits.characters >> 20} MiB of PTX altogether: unroll "
                "less, or use fewer kernels."
            )

    def remaining(self) -> float:
        """Seconds that are left. Raises CompileError if none are."""
        left = self.limits.seconds - self.seconds
        if left <= 0:
            raise CompileError(
                f"The submission's kernels take more than {self.limits.seconds:.0f} s to assemble altogether: unroll "
                "less, or use fewer kernels."
            )
        return left

    def keep(self, key: str, image: bytes, figures: Mapping[str, Figures]) -> None:
        """Count and keep what was made of a text. Raises CompileError if it is too much."""
        self.code += len(image)
        if self.code > self.limits.code:
            raise CompileError(
                f"The submission's kernels have more than {self.limits.code >> 20} MiB of machine code altogether: "
                "unroll less, or use smaller tables."
            )
        self.done[key] = image, figures


def assemble(plan: Plan, architecture: str, budget: Budget | None = None) -> Plan:
    """The plan with a cubin of each kernel for an architecture such as "sm_90a".

    What was assembled before, by this user and this assembler, comes from a cache. `budget` is what the submission has
    used so far, by its other plans too; without one this plan has a whole one. Raises CompileError, with the line of
    the submission where it is known, if the PTX does not assemble, needs a library, or takes more than the budget;
    PlanError if the plan has no code for the architecture.
    """
    limits_of(architecture)
    budget = budget or Budget()
    kernels = {}
    for key, kernel in plan.kernels.items():
        if architecture not in kernel.ptx:
            raise PlanError(
                f"The plan's kernel '{kernel.name}' has code for {', '.join(kernel.ptx)} but not for {architecture}: "
                "capture it for this architecture."
            )
        cubin = _cubin(kernel, architecture, plan.source_name, budget)
        kernels[key] = replace(kernel, cubins={**kernel.cubins, architecture: cubin})
    if sum(len(kernel.cubins[architecture].image) for kernel in kernels.values()) > _MOST_CODE:
        words = f"The submission's kernels have more than {_MOST_CODE >> 20} MiB of machine code: use fewer."
        raise CompileError(words)
    return replace(plan, kernels=kernels)


def with_machine_code(plan: Plan, architecture: str) -> Plan:
    """The plan with machine code, by which counters go; as it is where that cannot be made."""
    try:
        return assemble(plan, architecture)
    except WarplabError:
        return plan


def _cubin(kernel: Kernel, architecture: str, source_name: str, budget: Budget) -> Cubin:
    ptx = kernel.ptx[architecture]
    try:
        missing, known = externals(ptx), entries(ptx)
    except PtxError as error:
        words, line = error.message, line_of(ptx, error.ptx_line, source_name)
        raise _does_not_assemble(kernel, architecture, words, line) from None
    if missing:
        raise CompileError(
            f"The kernel '{kernel.name}' calls {', '.join(name[:80] for name in missing[:3])}, which is in a library; "
            "nothing is linked to a submission, so write it in the kernel's source.",
            kernel.line or None,
        )
    key = cache.key_of(assembler.version(), " ".join(assembler.FLAGS), architecture, ptx)
    if key not in budget.done:
        budget.take(len(ptx))
        kept = cache.read(CACHE_KIND, key)
        if kept is None:
            image, figures = _assemble_text(ptx, architecture, kernel, source_name, budget)
            head = json.dumps({name: asdict(f) for name, f in figures.items()})
            cache.write(CACHE_KIND, key, head.encode() + b"\n" + image)
        else:
            head_bytes, _, image = kept.partition(b"\n")
            figures = {name: Figures(**f) for name, f in json.loads(head_bytes).items()}
        budget.keep(key, image, figures)
    image, figures = budget.done[key]
    if kernel.entry not in figures:
        raise CompileError(f"The PTX of '{kernel.name}' has no entry {kernel.entry[:80]}.", kernel.line or None)
    if unseen := figures.keys() - known.keys():
        raise CompileError(
            f"The PTX of '{kernel.name}' has the entry {min(unseen)[:80]}, which is not declared as compilers do it: "
            "write kernels in CUDA C++ or with Numba.",
            kernel.line or None,
        )
    return Cubin(image, **asdict(figures[kernel.entry]))


def _assemble_text(
    ptx: str, architecture: str, kernel: Kernel, source_name: str, budget: Budget
) -> tuple[bytes, Mapping[str, Figures]]:
    most = min(_TIMEOUT, budget.remaining())
    done = assembler.run(without_printing(ptx), architecture, most)
    budget.seconds += done.seconds
    if done.timed_out:
        budget.remaining()
        raise CompileError(
            f"The kernel '{kernel.name}' takes more than {most:.0f} s to assemble: unroll less.", kernel.line or None
        )
    if not done.image:
        raise _failure(done.log, ptx, kernel, architecture, source_name)
    return done.image, parse_figures(done.log, limits_of(architecture).reserved_shared)


def parse_figures(log: str, reserved_shared: int) -> dict[str, Figures]:
    """The figures of each entry in what `ptxas -v` or nvJitLink's `-verbose` prints, by symbol.

    nvJitLink knows a kernel's shared memory only after its own linking, and then counts in what the system reserves.
    """
    stacks: dict[str, tuple[int, int, int]] = {}
    figures: dict[str, Figures] = {}
    entry = described = ""
    for line in log.splitlines():
        if m := _LINKED.match(line):
            entry = m.group(1)
        elif (m := _LINKED_SHARED.match(line)) and entry in figures:
            figures[entry] = replace(figures[entry], static_shared=max(0, int(m.group(1)) - reserved_shared))
        elif m := _ENTRY.match(line):
            entry = m.group(1)
        elif m := _PROPERTIES.match(line):
            described = m.group(1).strip("'")
        elif m := _STACK.match(line):
            stacks[described] = (int(m.group(1)), int(m.group(2)), int(m.group(3)))
        elif (m := _USED.match(line)) and entry:
            stack, stores, loads = stacks.get(entry, (0, 0, 0))
            shared = _SHARED.search(m.group(2))
            whole = _CUMULATIVE.search(m.group(2))
            figures[entry] = Figures(
                int(m.group(1)),
                stores,
                loads,
                max(stack, int(whole.group(1))) if whole else stack,
                int(shared.group(1)) if shared else 0,
            )
    return figures


def _failure(log: str, ptx: str, kernel: Kernel, architecture: str, source_name: str) -> CompileError:
    m = _ERROR.search(log)
    if m is None:
        said = " ".join(log.split())[-_MOST_WORDS:] or "it needs too much memory, or its own limits do not suffice"
        return CompileError(f"The assembler failed on '{kernel.name}': {said}.", kernel.line or None)
    line = line_of(ptx, int(m.group(1)), source_name) if m.group(1) else None
    of_it = [found for found in _ERROR.finditer(log) if found.group(1) == m.group(1)]
    messages = [found.group(2).strip().rstrip(".")[:_MOST_WORDS] for found in of_it]
    lines = ptx.split("\n")[int(m.group(1)) - 1 :][:1] if m.group(1) else []
    original = "\n".join([*messages, *(text.strip()[:_MOST_WORDS] for text in lines)])
    return _does_not_assemble(kernel, architecture, in_words(messages), line, original)


def _does_not_assemble(
    kernel: Kernel, architecture: str, words: str, line: int | None, original: str = ""
) -> CompileError:
    message = f"The kernel '{kernel.name}' does not assemble for {architecture}: {words}."
    return CompileError(message, line or kernel.line or None, original)
