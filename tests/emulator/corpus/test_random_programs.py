"""Random PTX programs on the emulator against their evaluation by whole numbers, every register bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from corpus.emulator import softfloat
from corpus.emulator.random_operations import FAMILIES, OPERATIONS
from corpus.emulator.random_programs import disagreements, draw, evaluate, generate, plan_of
from tests.emulator.alu import floats
from tests.sampling import WHOLE
from warplab.emulator import execute

PROGRAMS = 200 if WHOLE else 100


@pytest.mark.parametrize("first", range(0, PROGRAMS, 20))
@pytest.mark.slow
def test_programs(first: int) -> None:
    for seed in range(first, first + 20):
        program = generate(seed)
        inputs = draw(program)
        execution = execute(plan_of(program), inputs, workers=1)
        assert not execution.findings, execution.findings[0].message
        got = execution.outputs["out"]
        if not np.array_equal(got, evaluate(program, inputs)):
            raise AssertionError("\n".join(disagreements(program, inputs, got)))


def test_every_operation_takes_part() -> None:
    used = {step.operation.text for seed in range(PROGRAMS) for step in generate(seed).steps}
    assert len(used) > 0.95 * len({o.text for o in OPERATIONS})
    assert all(any(o.text in used for o in family) for family in FAMILIES.values())


def test_a_seed_gives_one_program_and_a_wrong_word_is_named() -> None:
    program = generate(5)
    assert generate(5).steps == program.steps != generate(6).steps
    inputs = draw(program)
    got = evaluate(program, inputs)
    assert disagreements(program, inputs, got) == []
    got[7, -5] ^= 1
    assert "thread 7" in disagreements(program, inputs, got)[0]


@pytest.mark.parametrize("width", [16, 32, 64])
def test_the_evaluation_agrees_with_numpy(width: int) -> None:
    form = {16: softfloat.F16, 32: softfloat.F32, 64: softfloat.F64}[width]
    a, b = floats(width, 1000, 1), floats(width, 1000, 2)
    x, y = (v.view(f"f{width // 8}") for v in (a, b))
    with np.errstate(all="ignore"):
        functions = (softfloat.add, softfloat.subtract, softfloat.multiply, softfloat.divide)
        for function, wanted in zip(functions, (x + y, x - y, x * y, x / y), strict=True):
            bits = np.where(np.isnan(wanted), a.dtype.type(form.nan), wanted.view(a.dtype))
            assert [function(int(i), int(j), form) for i, j in zip(a, b, strict=True)] == bits.tolist()
        roots = np.sqrt(x)
    bits = np.where(np.isnan(roots), a.dtype.type(form.nan), roots.view(a.dtype))
    assert [softfloat.root(int(i), form) for i in a] == bits.tolist()
