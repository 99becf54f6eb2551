"""Reading declarations of PTX, on text of the kinds that NVVM and NVRTC write."""

from __future__ import annotations

import pytest

from warplab.isa.entry import (
    EntryParameter,
    entries,
    externals,
    line_of,
    rename_files,
    static_shared_bytes,
    with_max_registers,
)

MODULE = """
.version 9.0
.target sm_90a
.address_size 64
.extern .func  (.param .b32 func_retval0) vprintf
(
	.param .b64 vprintf_param_0
)
;
.extern .func cudaFoo
(
	.param .b64 p
);
.extern .shared .align 16 .b8 dynamic[];
.visible .shared .align 8 .b8 tile[33];
.shared .f32 one;
.weak .shared .align 16 .b8 other[1000];
.visible .entry _Z1aPf(
	.param .u64 .ptr .global .align 4 _Z1aPf_param_0,
	.param .align 64 .b8 _Z1aPf_param_1[128],
	.param .align 2 .b8 _Z1aPf_param_2[2],
	.param .f32 _Z1aPf_param_3,
	.param .u8 _Z1aPf_param_4
)
.maxntid 16, 8
.minnctapersm 2
.reqnctapercluster 2, 2, 1
{
	.shared .align 4 .b8 $inner[2][8];
	.loc	1 5 0
	mov.u32 %r1, tile;
	mov.u32 %r2, one;
	.loc	2 99 0
	mov.u32 %r2, one;
	ret;
}
.weak .entry b
.reqntid 128
{
	mov.u32 %r1, other2;
	mov.u32 %r1, other;
	ret;
}
.visible .entry c()
{
	ret;
}
	.file	1 "/random/folder/submission.py"
	.file	2 "/opt/cuda/include/cuda_fp16.hpp"
"""


def test_parameters_and_directives() -> None:
    found = entries(MODULE)
    assert list(found) == ["_Z1aPf", "b", "c"]
    a, b, c = found.values()
    assert a.parameters == (
        EntryParameter("u64", 8, 8),
        EntryParameter("b8", 128, 64),
        EntryParameter("b8", 2, 2),
        EntryParameter("f32", 4, 4),
        EntryParameter("u8", 1, 1),
    )
    assert a.parameters[1].is_aggregate and not a.parameters[4].is_aggregate
    assert (a.max_threads, a.required_block, a.cluster) == (128, None, (2, 2, 1))
    assert (b.parameters, b.max_threads, b.required_block, b.cluster) == ((), None, (128, 1, 1), None)
    assert (c.parameters, c.max_threads, c.required_block, c.cluster) == ((), None, None, None)


def test_shared_memory_of_each_entry() -> None:
    # tile: 33 bytes; one: 4 bytes, aligned to 36; $inner is declared in a but counted by name: it is not named again.
    assert static_shared_bytes(MODULE, "_Z1aPf") == 33 + 3 + 4 + 16
    assert static_shared_bytes(MODULE, "b") == 1000
    assert static_shared_bytes(MODULE, "c") == 0


def test_externals_without_what_the_driver_has() -> None:
    assert externals(MODULE) == ["cudaFoo"]


def test_files_become_names() -> None:
    renamed = rename_files(MODULE, "/random/folder/submission.py", "my lab.py")
    assert '.file\t1 "my lab.py"' in renamed and '.file\t2 "cuda_fp16.hpp"' in renamed


@pytest.mark.parametrize(
    ("needle", "line"), [("mov.u32 %r1, tile", 5), (".loc\t2 99", None), ("mov.u32 %r1, other2", None)]
)
def test_lines(needle: str, line: int | None) -> None:
    renamed = rename_files(MODULE, "/random/folder/submission.py", "submission.py")
    number = next(i for i, text in enumerate(renamed.splitlines(), 1) if needle in text)
    assert line_of(renamed, number, "submission.py") == line


def test_register_limits_go_to_one_entry() -> None:
    limited = with_max_registers(MODULE, "c", 40)
    assert limited.count(".maxnreg") == 1
    assert ".entry c()\n.maxnreg 40\n{" in limited
    assert entries(limited) == entries(MODULE)


@pytest.mark.parametrize("entry", ["_Z1aPf", "b"])
def test_launch_bounds_override_a_register_limit_as_in_ptxas(entry: str) -> None:
    assert with_max_registers(MODULE, entry, 40) == MODULE
