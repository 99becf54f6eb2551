"""The interpreter at the size that is timed: what it is made of, and whether an SM has room for it."""

from __future__ import annotations

import pytest

from systems.megakernel import launch
from systems.megakernel.shapes import LLAMA_1B, TOY, Shape
from warplab.plan import assembler
from warplab.plan.assemble import parse_figures
from warplab.plan.capture.nvrtc import compile_cpp
from warplab.plan.limits import limits_of

pytestmark = pytest.mark.processes

ARCHITECTURE = "sm_90a"


@pytest.mark.parametrize(("shape", "slots"), [(LLAMA_1B, launch.SLOTS), (TOY, 6)])
def test_host_and_kernel_agree_on_sizes_and_shared_memory_fits(shape: Shape, slots: int) -> None:
    size = launch.shared_bytes(shape, slots)
    code = f'{launch.source()}\nstatic_assert(sizeof(Shared) == {size}, "");'
    code += f'\nstatic_assert(sizeof(Vectors) == 8 * {launch.words(shape)}, "");'
    compile_cpp(code, "interpreter.cu", launch.options(shape, slots), (), ARCHITECTURE)
    assert size <= limits_of(ARCHITECTURE).block_shared


def test_the_ring_is_as_large_as_an_sm_has_room_for() -> None:
    assert launch.shared_bytes(LLAMA_1B, launch.SLOTS + 1) > limits_of(ARCHITECTURE).block_shared


@pytest.mark.parametrize("flags", [True, False])
def test_nothing_is_spilled_and_a_block_has_its_registers(flags: bool) -> None:
    made = compile_cpp(launch.source(), "interpreter.cu", launch.options(LLAMA_1B, flags=flags), (), ARCHITECTURE)
    assembled = assembler.run(made.ptx, ARCHITECTURE, 60.0)
    limits = limits_of(ARCHITECTURE)
    figures = parse_figures(assembled.log, limits.reserved_shared)["decode"]
    assert (figures.spill_stores, figures.spill_loads, figures.stack, figures.static_shared) == (0, 0, 0, 0)
    assert figures.registers * launch.THREADS <= limits.registers
