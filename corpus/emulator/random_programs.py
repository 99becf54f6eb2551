"""Random straight-line PTX programs and their plain evaluation: a hundred instructions, every result kept.

Each thread loads a row of inputs, computes, and stores every register that it wrote. `generate` makes a program of a
seed, `evaluate` says what it must store, `plan_of` makes it runnable by the emulator and the GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from corpus.emulator import draws
from corpus.emulator.random_operations import FAMILIES, WIDTHS, Operation, contractible
from warplab.plan.model import Buffer, Kernel, Language, Launch, Parameter, Plan, Pointer, Role, Value

THREADS = 64
ARCHITECTURE = "sm_90a"
# What the columns of the inputs hold, by register class.
INPUTS: Mapping[str, tuple[str, ...]] = {
    "r": ("i32", "i32", "f32", "f32", "f32", "f16x2", "bf16x2", "i32"),
    "d": ("i64", "i64", "f64", "f64"),
    "h": ("i16", "f16", "bf16", "f16"),
}
_WEIGHTS = {
    **{"integer": 16, "word": 10, "f32": 16, "f64": 6, "half": 12, "slow": 2, "compare": 12, "convert": 14},
    **{"move": 6, "memory": 4, "lanes": 3},
}
_PREFIX = {"h": "%h", "r": "%r", "d": "%d", "p": "%p"}
_FUSED = tuple(contractible())


@dataclass(frozen=True)
class Register:
    """A register of the program: its class and number, and what its value is meant to be."""

    kind: str  # h, r, d or p
    number: int
    holds: str

    @property
    def name(self) -> str:
        return f"{_PREFIX[self.kind]}{self.number}"


@dataclass(frozen=True)
class Step:
    """An operation on registers; a source may be a number. If guarded, `before` is the value where the guard is off."""

    operation: Operation
    targets: tuple[Register, ...]
    sources: tuple[Register | int, ...]
    guard: Register | None = None
    negated: bool = False
    before: Register | None = None

    @property
    def text(self) -> str:
        """The PTX."""
        names = [t.name for t in self.targets] + [s.name if isinstance(s, Register) else hex(s) for s in self.sources]
        line = self.operation.text.format(*names)
        if self.guard is None or self.before is None:
            return line
        bits = WIDTHS[self.before.kind]
        copy = f"mov.{'pred' if bits == 1 else f'b{bits}'} {names[0]}, {self.before.name};"
        return f"{copy} @{'!' if self.negated else ''}{self.guard.name} {line}"


@dataclass(frozen=True)
class Program:
    """A program: its seed, its steps, every register in the order of the output's columns."""

    seed: int
    steps: tuple[Step, ...]
    registers: tuple[Register, ...]

    @property
    def columns(self) -> int:
        """Words that a thread stores, a multiple of four."""
        return -(-sum(2 if r.kind == "d" else 1 for r in self.registers) // 4) * 4


def generate(seed: int, length: int = 100, fused: bool = False) -> Program:
    """The program of a seed. With `fused` it has products and sums that the assembler may fuse, and no evaluation."""
    rng = np.random.default_rng(seed)
    registers = [Register(kind, n, holds) for kind, row in INPUTS.items() for n, holds in enumerate(row)]
    inputs = frozenset(registers)
    counts = {"h": len(INPUTS["h"]), "r": len(INPUTS["r"]), "d": len(INPUTS["d"]), "p": 0}
    families, weights = list(_WEIGHTS), np.array(list(_WEIGHTS.values())) / sum(_WEIGHTS.values())

    def new(kind: str, holds: str) -> Register:
        register = Register(kind, counts[kind], "p" if kind == "p" else holds)
        counts[kind] += 1
        registers.append(register)
        return register

    def pick(kind: str, holds: str) -> Register | None:
        fitting = [r for r in registers if r.kind == kind and r.holds == holds]
        # Inputs stay in play: results of results soon are NaN, zero or the largest number.
        fresh = [r for r in fitting if r in inputs]
        fitting = fresh if fresh and rng.random() < 0.4 else fitting
        return fitting[rng.integers(len(fitting))] if fitting else None

    steps: list[Step] = []
    while len(steps) < length:
        if fused and rng.random() < 0.3:
            operation = _FUSED[rng.integers(len(_FUSED))]
        else:
            family = FAMILIES[families[rng.choice(len(families), p=weights)]]
            operation = family[rng.integers(len(family))]
        sources: list[Register | int] = []
        for n, (kind, holds) in enumerate(zip(operation.sources, operation.kinds, strict=True)):
            if n and holds[0] == "i" and _takes_numbers(operation) and rng.random() < 0.3:
                small = rng.random() < 0.7
                sources.append(int(rng.integers(0, 40 if small else 1 << min(WIDTHS[kind], 31))))
            elif (chosen := pick(kind, holds)) is not None:
                sources.append(chosen)
        if len(sources) < len(operation.sources):
            continue  # there is no predicate yet
        if operation.text[:3] in ("min", "max") and len(set(sources)) == 1:
            continue  # ptxas takes it for the one value, NaN or not
        guard = before = None
        if _can_be_guarded(operation) and rng.random() < 0.15:
            guard, before = pick("p", "p"), pick(operation.targets, operation.gives)
            guard = guard if before is not None else None
        targets = tuple(new(kind, operation.gives) for kind in operation.targets)
        negated = bool(rng.integers(2))
        steps.append(Step(operation, targets, tuple(sources), guard, negated, before if guard else None))
    return Program(seed, tuple(steps), tuple(registers[len(inputs) :]))


def _can_be_guarded(operation: Operation) -> bool:
    single = len(operation.targets) == 1 and operation.text.count(";") == 1
    # With a guard, ptxas 13.0 converts the old value of set.f32 to an integer and back, does testp always, and gives
    # the NaNs of neg and abs other bits.
    odd = operation.text.startswith(("set.", "testp.", "neg.f32", "abs.f32"))
    return single and not operation.lanes and not odd


def _takes_numbers(operation: Operation) -> bool:
    # ptxas 13.0 gets wrong: sub.sat of a number, bfe.s32 of a number of bits above 32.
    odd = any(part in operation.text for part in ("16x2", ".sat", "bfe.", "bfi."))
    return operation.family in ("integer", "word") and not odd


def draw(program: Program) -> dict[str, np.ndarray]:
    """The inputs of a program: for each register class a row a thread."""
    rng = np.random.default_rng(program.seed + 1_000_000)
    arrays = {}
    for kind, row in INPUTS.items():
        dtype = np.dtype(f"u{WIDTHS[kind] // 8}")
        arrays[f"in_{kind}"] = np.ascontiguousarray(np.stack([_column(rng, holds, dtype) for holds in row], axis=1))
    return arrays


def _column(rng: np.random.Generator, holds: str, dtype: np.dtype) -> np.ndarray:
    shape = (THREADS,)
    if holds in ("f32", "f64", "f16"):
        return _mixed(rng, shape, np.dtype(holds[0] + str(dtype.itemsize))).view(dtype)
    if holds == "f16x2":
        return _mixed(rng, (2 * THREADS,), np.dtype("f2")).view(dtype)
    if holds.startswith("bf16"):
        wide = _mixed(rng, (THREADS * dtype.itemsize // 2,), np.dtype("f4")).view(np.uint32)
        return (wide >> 16).astype(np.uint16).view(dtype)
    bits = draws.bits(rng, shape, dtype)
    width = 8 * dtype.itemsize
    corners = np.array([0, 1, 2, (1 << width - 1) - 1, 1 << width - 1, (1 << width) - 1, 31, 32, 33], dtype)
    small = rng.integers(0, 70, shape).astype(dtype)
    return np.choose(rng.integers(0, 4, shape), [bits, bits, rng.choice(corners, shape), small])


def _mixed(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Half ordinary numbers, half special ones."""
    near = (rng.standard_normal(shape) * 2.0 ** rng.integers(-4, 5, shape)).astype(dtype)
    return np.where(rng.random(shape) < 0.5, near, draws.special(rng, shape, dtype))


def evaluate(program: Program, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """What the program stores, uint32 [THREADS, columns]."""
    values = _input_values(inputs)
    for step in program.steps:
        for target, column in zip(step.targets, _columns(step, values), strict=True):
            values[target.name] = column
    words: list[list[int]] = []
    for register in program.registers:
        column = values[register.name]
        words.append([v & 0xFFFFFFFF for v in column])
        if register.kind == "d":
            words.append([v >> 32 for v in column])
    words += [[0] * THREADS] * (program.columns - len(words))
    return np.array(words, np.uint32).T.copy()


def disagreements(program: Program, inputs: Mapping[str, np.ndarray], got: np.ndarray) -> list[str]:
    """One line for each step whose stored result is not what it makes of the stored values of its operands."""
    values = _input_values(inputs)
    place = 0
    for register in program.registers:
        low = got[:, place].tolist()
        place += 1
        if register.kind == "d":
            low = [v | int(high) << 32 for v, high in zip(low, got[:, place], strict=True)]
            place += 1
        values[register.name] = low
    lines = []
    for step in program.steps:
        for target, column in zip(step.targets, _columns(step, values), strict=True):
            seen = values[target.name]
            thread = next((t for t in range(THREADS) if seen[t] != column[t]), None)
            if thread is None:
                continue
            used = [s for s in (*step.sources, step.guard, step.before) if isinstance(s, Register)]
            operands = ", ".join(f"{r.name} = {values[r.name][thread]:#x}" for r in used)
            lines.append(
                f"seed {program.seed}, thread {thread}: {step.text} [{operands}] gave {target.name} = "
                f"{seen[thread]:#x}, not {column[thread]:#x}"
            )
    return lines


def _input_values(inputs: Mapping[str, np.ndarray]) -> dict[str, list[int]]:
    return {
        f"{_PREFIX[kind]}{n}": [int(v) for v in column]
        for kind in INPUTS
        for n, column in enumerate(inputs[f"in_{kind}"].T)
    }


def _columns(step: Step, values: Mapping[str, list[int]]) -> list[list[int]]:
    """The values that a step gives each of its targets, over the threads."""
    sources = [values[s.name] if isinstance(s, Register) else [s] * THREADS for s in step.sources]
    results = _results(step, sources)
    columns = []
    for n, target in enumerate(step.targets):
        mask = (1 << WIDTHS[target.kind]) - 1
        column = [int(result[n]) & mask for result in results]
        if step.guard is not None and step.before is not None:
            on = [bool(p) != step.negated for p in values[step.guard.name]]
            column = [c if o else b for c, o, b in zip(column, on, values[step.before.name], strict=True)]
        columns.append(column)
    return columns


def _results(step: Step, sources: list[list[int]]) -> list:
    meaning = step.operation.meaning
    if step.operation.lanes:
        found: list = []
        for start in range(0, THREADS, 32):
            found += cast(Iterable, meaning(*(s[start : start + 32] for s in sources)))
        return found
    results = [meaning(*row) for row in zip(*sources, strict=True)]
    return results if len(step.targets) > 1 else [(r,) for r in results]


def ptx_of(program: Program) -> str:
    """The program as a PTX module with the entry `program`."""
    lines = [".version 8.6", f".target {ARCHITECTURE}", ".address_size 64"]
    lines.append(
        ".visible .entry program(.param .u64 in_r, .param .u64 in_d, .param .u64 in_h, .param .u64 out,"
        " .param .u32 zero)"
    )
    lines += ["{", f".shared .align 16 .b8 slots[{32 * THREADS}];", ".local .align 16 .b8 private[32];"]
    for kind, prefix in _PREFIX.items():
        number = len(INPUTS.get(kind, ())) + sum(r.kind == kind for r in program.registers)
        lines.append(f".reg .{'pred' if kind == 'p' else f'b{WIDTHS[kind]}'} {prefix}<{number + 1}>;")
    lines += [".reg .pred %nan;", ".reg .b32 %thread, %shared, %word<4>, %first, %second, %zeror;"]
    lines += [".reg .b16 %zeroh;", ".reg .b64 %local, %address, %zerod;"]
    lines += ["ld.param.u32 %zeror, [zero];", "cvt.u16.u32 %zeroh, %zeror;", "cvt.u64.u32 %zerod, %zeror;"]
    lines += ["mov.u32 %thread, %tid.x;", "mov.u32 %shared, slots;", "mad.lo.u32 %shared, %thread, 32, %shared;"]
    lines.append("mov.u64 %local, private;")
    for kind, row in INPUTS.items():
        size = WIDTHS[kind] // 8
        together = 2 if kind == "d" else 4
        lines += [f"ld.param.u64 %address, [in_{kind}];"]
        lines.append(f"mad.wide.u32 %address, %thread, {size * len(row)}, %address;")
        for start in range(0, len(row), together):
            names = ", ".join(f"{_PREFIX[kind]}{n}" for n in range(start, start + together))
            lines.append(f"ld.global.v{together}.b{8 * size} {{{names}}}, [%address+{size * start}];")
    lines += [step.text for step in program.steps]
    lines += ["ld.param.u64 %address, [out];", f"mad.wide.u32 %address, %thread, {4 * program.columns}, %address;"]
    lines += _stores(program)
    return "\n".join([*lines, "ret;", "}"]) + "\n"


def _stores(program: Program) -> list[str]:
    lines: list[str] = []
    waiting = 0  # words that are in %word0 and on
    column = 0

    def flush() -> None:
        nonlocal waiting, column
        lines.append(f"st.global.v4.b32 [%address+{4 * column}], {{%word0, %word1, %word2, %word3}};")
        waiting, column = 0, column + 4

    for register in program.registers:
        if register.kind == "d":
            if waiting == 3:
                lines.append(f"mov.b64 {{%word3, %thread}}, {register.name};")
                flush()
                lines.append("mov.b32 %word0, %thread;")
                waiting = 1
            else:
                lines.append(f"mov.b64 {{%word{waiting}, %word{waiting + 1}}}, {register.name};")
                waiting += 2
        else:
            word = f"%word{waiting}"
            if register.kind == "r":
                lines.append(f"mov.b32 {word}, {register.name};")
            elif register.kind == "h":
                lines.append(f"cvt.u32.u16 {word}, {register.name};")
            else:
                lines.append(f"selp.b32 {word}, 1, 0, {register.name};")
            waiting += 1
        if waiting == 4:
            flush()
    if waiting:
        lines += [f"mov.b32 %word{n}, 0;" for n in range(waiting, 4)]
        flush()
    return lines


def plan_of(program: Program) -> Plan:
    """The program as a plan of one block."""
    arrays = draw(program)
    buffers = {name: Buffer(name, Role.INPUT, a.dtype.name, a.shape, a.strides) for name, a in arrays.items()}
    columns = program.columns
    buffers["out"] = Buffer("out", Role.OUTPUT, "uint32", (THREADS, columns), (4 * columns, 4))
    pointers = (Pointer(name, 0, name) for name in ("in_r", "in_d", "in_h", "out"))
    arguments: tuple[Pointer | Value, ...] = (*pointers, Value("uint32", 0, "zero"))
    sizes = [8 if isinstance(argument, Pointer) else 4 for argument in arguments]
    parameters = tuple(Parameter(a.parameter, size, size) for a, size in zip(arguments, sizes, strict=True))
    kernel = Kernel("program", "program", Language.CUDA_CPP, parameters, {ARCHITECTURE: ptx_of(program)})
    launch = Launch("program", (1, 1, 1), (THREADS, 1, 1), arguments)
    return Plan(f"random_{program.seed}", {"program": kernel}, buffers, (launch,))
