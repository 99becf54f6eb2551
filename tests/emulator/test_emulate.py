"""`warplab.emulate`: a kernel of a PTX module with NumPy arrays, and `warplab run kernel.ptx`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import warplab
from tests.emulator.saxpy import SAXPY
from warplab.command import CLEAN, FOUND, USAGE_ERROR, main
from warplab.plan.execution import FindingKind

pytestmark = pytest.mark.processes  # ptxas and, for CUDA C++, NVRTC

LOAD_LINE = SAXPY.splitlines().index("    ld.global.f32 %x, [%px];  // line 31") + 1
X, Y = np.arange(1000, dtype=np.float32), np.full(1000, 0.5, np.float32)


def saxpy(ptx: str | bytes | Path = SAXPY, entry: str = "saxpy", **options):
    return warplab.emulate(ptx, entry, **{"grid": 8, "block": 128, "args": (2.0, X, Y, 1000), **options})


def test_arrays_findings_and_counters_by_line() -> None:
    result = saxpy()
    assert np.array_equal(result.outputs["y"], 2 * X + Y) and np.array_equal(result.outputs["x"], X)
    assert result.findings == () and Y[0] == 0.5
    loads = result.lines[LOAD_LINE]
    assert loads.global_load_requests == 32 and loads.global_load_sectors == 125  # 1,000 floats are 125 sectors
    assert result.counters.global_load_sectors == 250 and result.counters.global_store_sectors == 125
    assert "ld.global.f32 %x" in str(result.source()) and "x: float32[1000], unchanged" in str(result)


def test_it_knows_the_lines_that_no_thread_ran() -> None:
    (all_of,), (none_of,) = (saxpy(args=(2.0, X, Y, n)).execution.launches for n in (1000, 0))
    assert all_of.ran_lines == all_of.code_lines == none_of.code_lines
    missed = none_of.code_lines - none_of.ran_lines
    assert LOAD_LINE in missed and min(missed) > min(none_of.code_lines)


def test_findings_name_the_line_of_the_ptx() -> None:
    result = saxpy(args=(2.0, X[:900], Y, 1000))
    (finding,) = result.findings
    assert finding.kind is FindingKind.OUT_OF_BOUNDS and finding.line == LOAD_LINE
    assert finding.array == "x" and finding.index == (900,) and finding.block == (7, 0, 0)


def test_line_information_of_the_ptx_itself_gives_way_to_its_own_lines() -> None:
    marked = SAXPY.replace("    ld.global.f32 %x", "    .loc 1 7 3\n    ld.global.f32 %x") + '.file 1 "k.cu"\n'
    assert saxpy(marked).lines.keys() == {line + (line >= LOAD_LINE) for line in saxpy().lines}


def test_the_only_kernel_needs_no_name_and_a_file_does_as_well(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(SAXPY)
    for ptx in (path, str(path)):
        result = saxpy(ptx, "", grid=(16,), block=(64, 1, 1))
        assert result.plan.source_name == "k.ptx" and np.array_equal(result.outputs["y"], 2 * X + Y)


def test_bytes_of_a_module_do_as_well() -> None:
    assert np.array_equal(saxpy(SAXPY.encode() + b"\0").outputs["y"], 2 * X + Y)


def test_one_array_given_twice_is_one_array() -> None:
    result = saxpy(args=(1.0, Y, Y, 1000))
    assert list(result.outputs) == ["x"] and np.array_equal(result.outputs["x"], np.ones(1000))


def test_a_profile_of_a_block() -> None:
    profile = saxpy().profile(block=(3, 0, 0))
    assert profile.block == (3, 0, 0) and LOAD_LINE in profile.lines()


ONE = """\
.version 8.8
.target {target}
.address_size 64
.extern .shared .align 16 .b8 tile[];
.visible .entry k(.param .u64 out{parameters})
{{
    .reg .b32 %r<9>; .reg .b64 %p<9>; .reg .b16 %h; .reg .f64 %d; .reg .f32 %f;
    ld.param.u64 %p1, [out];
{body}
    st.global.u32 [%p1], %r1;
    ret;
}}
"""


def one(body: str, *args, target: str = "sm_90a", parameters: str = "", **options):
    ptx = ONE.format(body=body, target=target, parameters=parameters)
    out = np.zeros(4, np.uint32)
    return warplab.emulate(ptx, args=(out, *args), **{"grid": 1, "block": 1, **options}).outputs["out"]


@pytest.mark.parametrize(
    ("kind", "value", "bits"),
    [
        ("u32", 7, 7),
        ("s32", -1, 0xFFFFFFFF),
        ("b32", np.float32(1.0), 0x3F800000),
        ("f32", 1, 0x3F800000),
        ("f32", np.float32(-2.0), 0xC0000000),
        ("u16", 65535, 65535),
        ("s8", -2, 0xFFFFFFFE),
    ],
)
def test_numbers_arrive_as_the_parameter_has_them(kind: str, value, bits: int) -> None:
    wide = kind if kind[1:] == "32" else kind
    load = f"    ld.param.{'b32' if kind == 'f32' else wide} %r1, [v];"
    assert one(load, value, parameters=f", .param .{kind} v")[0] == bits


def test_a_structure_goes_as_bytes() -> None:
    content = np.array([1, 2, 3], np.uint32).tobytes()
    assert one("    ld.param.u32 %r1, [v+8];", content, parameters=", .param .align 4 .b8 v[12]")[0] == 3


def test_shared_memory_clusters_and_targets() -> None:
    body = "    mov.u32 %r2, 5; st.shared.u32 [tile+60], %r2; ld.shared.u32 %r1, [tile+60];"
    assert one(body, shared=64)[0] == 5
    assert one("    mov.u32 %r1, %cluster_nctaid.x;", grid=4, cluster=2)[0] == 2
    assert one("    mov.u32 %r1, 3;", target="sm_60")[0] == 3


def test_a_grid_barrier_needs_a_cooperative_launch() -> None:
    body = "    mov.u32 %r1, %envreg2;"
    assert one(body, cooperative=True)[0] != 0 and one(body)[0] == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"entry": "axpy"}, "no kernel 'axpy': name one of saxpy"),
        ({"args": (2.0, X, Y)}, "'saxpy' takes 4 arguments (.f32 a, .u64 x, .u64 y, .u32 saxpy_param_3), not 3"),
        ({"args": (X, X, Y, 1000)}, "Parameter 'a' of 'saxpy' is .f32, not a pointer: pass a number"),
        ({"args": (2.0, X, Y, "many")}, "is .u32, which takes a whole number, not str"),
        ({"args": (2.0, X, Y, 2.5)}, "Parameter 'param_3' of 'saxpy' is .u32, which takes a whole number, not float"),
        ({"args": (2.0, X, Y, 1 << 32)}, "into which 4294967296 does not fit"),
        ({"args": ("2", X, Y, 1000)}, "is .f32, which takes a number, not str"),
        ({"args": (2.0, [1.0], Y, 1000)}, "is .u64, which takes a whole number or a NumPy array, not list"),
        ({"args": (2.0, np.array([1, None]), Y, 1000)}, "Array 'x' of 'saxpy' has dtype object: pass plain numbers"),
        ({"args": (2.0, X.astype(">f4"), Y, 1000)}, "has dtype >f4: pass plain numbers, or its bytes"),
        ({"args": 2.0}, "args is of type float: pass a tuple with a value per parameter"),
        ({"grid": 0}, "The grid is 0: pass one to three whole numbers from 1 on"),
        ({"block": (32, 64)}, "has 2048 threads: the most is 1024"),
        ({"block": (1, 1, 65)}, "The block (1, 1, 65) is too large: the most is (1024, 1024, 64)"),
        ({"grid": (1, 65536)}, "The grid (1, 65536, 1) is too large"),
        ({"cluster": 3}, "The grid (8, 1, 1) is no multiple of the cluster (3, 1, 1)"),
        ({"shared": 300_000}, "A block of sm_90 has at most 232448 bytes of shared memory, not 300000"),
        ({"shared": "64"}, "shared is '64': pass a whole number of bytes"),
        ({"target": "sm_10"}, "sm_10"),
        ({"ptx": b"\x7fELF\xff"}, "What was passed is no text: give the PTX, not a cubin or a fatbin"),
        ({"ptx": "nothing.ptx"}, "The file nothing.ptx cannot be read (No such file or directory)"),
        ({"ptx": ".version 8.0\n.target sm_90\n"}, "The PTX defines no kernel"),
        ({"ptx": SAXPY.replace("sm_90", "sm_300")}, "The emulator does not know sm_300"),
        ({"ptx": SAXPY + "/* no end"}, "The PTX cannot be read: a comment has no end (line 38 of the PTX)"),
    ],
)
def test_what_cannot_be_launched_is_one_sentence(options: dict, words: str) -> None:
    with pytest.raises(warplab.EmulateError) as caught:
        saxpy(**options)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert caught.value._render_traceback_() == [f"warplab.emulate: {caught.value}"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "kernel.ptx").write_text(SAXPY)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    launch = ["--entry", "saxpy", "--grid", "8", "--block", "128", "--arg", "2.0"]
    arrays = ["--arg", str(tmp_path / "x.npy"), "--arg", str(tmp_path / "y.npy"), "--arg", "1000"]
    return ["run", str(tmp_path / "kernel.ptx"), *launch, *arrays]


def test_the_command_reports_and_writes_arrays_only_where_it_is_told_to(files, tmp_path: Path, capsys) -> None:
    assert main(files) == CLEAN
    assert "saxpy, grid (8, 1, 1), block (128, 1, 1)" in capsys.readouterr().out
    assert len(list(tmp_path.iterdir())) == 3
    assert main([*files, "--out", str(tmp_path / "after")]) == CLEAN
    assert f"Arrays are in {tmp_path / 'after'}: x.npy, y.npy" in capsys.readouterr().out
    assert np.array_equal(np.load(tmp_path / "after" / "y.npy"), 2 * X + Y)
    assert main([*files[:-1], "2000"]) == FOUND


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda words: [w for w in words if w not in ("--grid", "8")], "needs its launch: add --grid"),
        (lambda words: [*words[:-1], "many"], "--arg many is neither a number nor an .npy file that can be read"),
        (lambda words: [words[0], words[1], "main", *words[2:]], "name the kernel of a .ptx file with --entry"),
        (lambda words: [words[0], "a.py", *words[2:]], "--entry, --grid, --block, --arg: only a kernel of a .ptx file"),
    ],
)
def test_wrong_usage_is_one_sentence(change, words: str, files, capsys) -> None:
    assert main(change(files)) == USAGE_ERROR
    assert words in capsys.readouterr().err
