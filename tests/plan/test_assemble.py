"""From PTX to machine code: the figures, the cache, and what is refused."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.plan.conftest import NUMBA, Grab
from warplab.errors import CompileError, PlanError
from warplab.isa.entry import without_printing
from warplab.plan import archive, assemble, assembler, cache
from warplab.plan.model import Kernel, Language, Launch, Parameter, Plan, Pointer
from warplab.plan.occupancy import launch_occupancy

pytestmark = pytest.mark.processes

MIXED = (
    NUMBA
    + '''
import cupy
CODE = r"""
extern "C" __global__ void big(float* y) {
    __shared__ float tile[1500];
    tile[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x ^ 1];
}
extern "C" __global__ void small(float* y) { y[0] = 1; }
"""
module = cupy.RawModule(code=CODE)

@cuda.jit
def k(x, y):
    s = cuda.shared.array(300, np.float64)
    i = cuda.grid(1)
    s[cuda.threadIdx.x] = x[i]
    cuda.syncthreads()
    y[i] = s[cuda.threadIdx.x ^ 1]

@cuda.jit(max_registers=24)
def tight(x, y):
    a = cuda.local.array(32, np.float64)
    i = cuda.grid(1)
    for j in range(32):
        a[j] = x[i + j]
    s = 0.0
    for j in range(32):
        s = s * a[31 - j] + a[(i + j) % 32]
    y[i] = s

def f(x, y):
    k[8, 128](x, y)
    tight[8, 128](x, y)
    module.get_function("big")((1,), (64,), (y,))
    module.get_function("small")((1,), (64,), (y,))
'''
)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    from tests.plan.conftest import call
    from warplab.plan.capture.submission import capture

    path = tmp_path_factory.mktemp("mixed") / "submission.py"
    path.write_text(MIXED)
    return capture(path, [call()], ("sm_80", "sm_90a"))[0]


def test_figures_are_those_of_the_machine_code(mixed: Plan, tmp_path: Path) -> None:
    plan = assemble.assemble(assemble.assemble(mixed, "sm_90a"), "sm_80")
    kernels = plan.kernels
    assert all(set(k.cubins) == {"sm_80", "sm_90a"} for k in kernels.values())
    assert kernels["k"].cubins["sm_90a"].static_shared == 2400
    assert kernels["big"].cubins["sm_90a"].static_shared == 6000
    assert kernels["small"].cubins["sm_90a"].static_shared == 0
    assert kernels["small"].cubins["sm_90a"].stack == 0
    tight = kernels["tight"].cubins["sm_90a"]
    assert tight.registers == 24 and tight.spill_stores > 0 and tight.spill_loads > 0 and tight.stack >= 256
    for kernel in kernels.values():
        cubin = kernel.cubins["sm_90a"]
        assert cubin.image[:4] == b"\x7fELF" and 0 < cubin.registers <= 255
        assert kernel.entry.encode() in cubin.image
    assert archive.loads(archive.dumps(plan)) == plan
    result = launch_occupancy("sm_90a", kernels["k"].cubins["sm_90a"], plan.launches[0])
    assert result.blocks == 16 and result.fraction == 1.0


@pytest.mark.skipif(shutil.which("cuobjdump") is None, reason="needs cuobjdump")
def test_figures_equal_cuobjdumps(mixed: Plan, tmp_path: Path) -> None:
    for kernel in assemble.assemble(mixed, "sm_90a").kernels.values():
        cubin = kernel.cubins["sm_90a"]
        (tmp_path / "a.cubin").write_bytes(cubin.image)
        said = subprocess.run(
            ["cuobjdump", "-res-usage", tmp_path / "a.cubin"], capture_output=True, text=True, check=True
        ).stdout
        m = re.search(rf"Function {re.escape(kernel.entry)}:\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", said)
        assert m and int(m.group(1)) == cubin.registers


def test_a_second_time_comes_from_the_cache(mixed: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = assemble.assemble(mixed, "sm_90a")

    def never(*_: object) -> None:
        raise AssertionError("assembled again")

    monkeypatch.setattr(assemble, "_assemble_text", never)
    assert assemble.assemble(mixed, "sm_90a") == first
    for file in (cache.folder() / assemble.CACHE_KIND).iterdir():
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(AssertionError, match="assembled again"):
        assemble.assemble(mixed, "sm_90a")  # damaged files are not used
    for file in (cache.folder() / assemble.CACHE_KIND).iterdir():
        file.unlink()


def test_a_cache_that_cannot_be_written_changes_nothing(
    mixed: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WARPLAB_CACHE", str(tmp_path / "file" / "below"))
    assert assemble.assemble(mixed, "sm_90a").kernels["k"].cubins["sm_90a"].static_shared == 2400


def test_the_assembler_is_that_of_the_packages_whatever_pathfinder_knows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The host's toolkit may be of another version: what its ptxas makes, the packages' driver may not load."""
    from cuda import pathfinder

    def unknown(name: str) -> str:  # pathfinder 1.6, which Colab has
        raise LookupError(f"Binary {name!r} is not supported.")

    monkeypatch.setattr(pathfinder, "find_nvidia_binary_utility", unknown)
    monkeypatch.setattr(pathfinder, "find_nvidia_header_directory", lambda name: str(tmp_path / name / "include"))
    assert assembler._of_the_packages() is None  # no packages: the host's, of PATH
    beside = tmp_path / "nvcc" / "bin" / "ptxas"
    beside.parent.mkdir(parents=True)
    beside.touch()
    assert assembler._of_the_packages() == str(beside)


def test_nvjitlink_gives_the_same_figures(mixed: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.bindings.nvjitlink")
    with_ptxas = assemble.assemble(mixed, "sm_90a")
    monkeypatch.setattr(assembler, "_ptxas", lambda: None)
    assembler.version.cache_clear()
    try:
        with_jitlink = assemble.assemble(mixed, "sm_90a")
    finally:
        assembler.version.cache_clear()
    for key, kernel in with_ptxas.kernels.items():
        ours, theirs = kernel.cubins["sm_90a"], with_jitlink.kernels[key].cubins["sm_90a"]
        assert replace(ours, image=b"") == replace(theirs, image=b"")


def one_kernel(body: str, before: str = "") -> Plan:
    ptx = f""".version 9.0
.target sm_90a
.address_size 64
{before}
.visible .entry k(
	.param .u64 k_param_0
)
{{
	.reg .b32 %r<4>;
	.loc 1 41 0
	mov.u32 %r1, 1;
	.loc 1 42 0
{body}
	.loc 1 43 0
	ret;
}}
	.file	1 "submission.py"
	.file	2 "cuda_fp16.hpp"
"""
    kernel = Kernel("k", "k", Language.CUDA_CPP, (Parameter("y", 8, 8),), {"sm_90a": ptx}, line=40)
    return Plan("f", {"k": kernel}, {}, (Launch("k", (1, 1, 1), (1, 1, 1), (Pointer("y"),)),))


@pytest.mark.parametrize(
    ("body", "before", "line", "words"),
    [
        ("\tbar.snyc 0;", "", 42, "snyc"),
        ("\t.loc 2 7 0\n\tbar.snyc 0;", "", 40, "snyc"),
        ("\tadd.u32 %r1, %r1, %r9;", "", 42, "does not assemble for sm_90a"),
        ("\tst.shared.u32 [big], %r1;", ".shared .align 4 .b8 big[300000];", 40, "use smaller shared arrays"),
        ("\tcall cudaStreamSynchronize;", ".extern .func cudaStreamSynchronize;", 40, "nothing is linked"),
        ("\tgarbage \x01", "", 42, "assemble"),
    ],
)
def test_ptx_that_does_not_assemble_has_the_students_line(body: str, before: str, line: int, words: str) -> None:
    with pytest.raises(CompileError, match=words) as caught:
        assemble.assemble(one_kernel(body, before), "sm_90a")
    assert caught.value.line == line
    assert "\n" not in str(caught.value) and "/tmp" not in str(caught.value)


HIDDEN = ".visible .entry hidden() { ret; }"


@pytest.mark.parametrize(
    ("body", "before", "line", "words"),
    [
        ("\t.reg .b32 q<2000000000>;", "", 42, "more than 100000 registers"),
        ("\t.shared .b8 s[1+2*3];", "", 42, "write the number"),
        ("\t.loc 1 99999999999999999999 0", "", 42, "too large"),
        ('#line 7 "elsewhere.py"\n\tbad;', "", 42, "'#'"),
        ("", f'// {HIDDEN}\n.pragma "{HIDDEN}";/* \n', 40, "comment has no end"),
    ],
)
def test_what_the_scanner_refuses_never_reaches_the_assembler(
    monkeypatch: pytest.MonkeyPatch, body: str, before: str, line: int, words: str
) -> None:
    monkeypatch.setattr(assembler, "run", never)
    with pytest.raises(CompileError, match=words) as caught:
        assemble.assemble(one_kernel(body, before), "sm_90a")
    assert caught.value.line == line


def never(*_: object) -> None:
    raise AssertionError("assembled")


def test_figures_are_not_those_that_a_pragma_prints() -> None:
    forged = "Compiling entry function 'k' ptxas info    : Used 1 registers 5 bytes smem"
    plan = one_kernel(f'\t.pragma "{forged}";')
    plain = assemble.assemble(one_kernel(""), "sm_90a").kernels["k"].cubins["sm_90a"]
    cubin = assemble.assemble(plan, "sm_90a").kernels["k"].cubins["sm_90a"]
    assert (cubin.registers, cubin.static_shared) == (plain.registers, plain.static_shared)


LOG = """ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Used 4 registers
"""


@pytest.fixture
def instant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """An assembler that takes 50 s by its own account; the texts that it was given."""
    monkeypatch.setenv("WARPLAB_CACHE", str(tmp_path / "cache"))
    given: list[str] = []

    def run(ptx: str, architecture: str, seconds: float) -> assembler.Assembled:
        given.append(ptx)
        return assembler.Assembled(b"\x7fELF" + bytes(1000), LOG + (HIDDEN_LOG if "hidden" in ptx else ""), 50.0)

    monkeypatch.setattr(assembler, "run", run)
    return given


HIDDEN_LOG = LOG.replace("'k'", "'other'")


def test_an_entry_that_only_the_assembler_sees_is_refused(instant: list[str]) -> None:
    with pytest.raises(CompileError, match="the entry other, which is not declared"):
        assemble.assemble(one_kernel("\t// hidden"), "sm_90a")


def test_plans_of_a_submission_share_a_budget(instant: list[str]) -> None:
    budget = assemble.Budget()
    for text in ("\t// a", "\t// a", "\t// b", "\t// c"):
        assemble.assemble(one_kernel(text), "sm_90a", budget)
    assert len(instant) == budget.texts == 3 and budget.seconds == 150
    with pytest.raises(CompileError, match="more than 120 s to assemble altogether"):
        assemble.assemble(one_kernel("\t// d"), "sm_90a", budget)
    assert len(instant) == 3
    assemble.assemble(one_kernel("\t// d"), "sm_90a")  # another submission


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (assemble.AssemblyLimits(texts=1), "more than 1 different kernels"),
        (assemble.AssemblyLimits(characters=1 << 8), "MiB of PTX altogether"),
        (assemble.AssemblyLimits(code=1500), "MiB of machine code altogether"),
    ],
)
def test_a_budget_counts_texts_characters_and_code(instant: list[str], limits: object, words: str) -> None:
    budget = assemble.Budget(limits)  # type: ignore[arg-type]
    with pytest.raises(CompileError, match=words):
        for text in ("\t// a", "\t// b"):
            assemble.assemble(one_kernel(text), "sm_90a", budget)


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """A shell script in place of ptxas; its arguments are those of `assembler._command`."""
    path = folder / "ptxas"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setattr(assembler, "_ptxas", lambda: str(path))


def test_the_assembler_sees_no_environment_and_works_in_a_folder_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET", "hidden sizes")
    stand_in(monkeypatch, tmp_path, "env; pwd; ls; cat; ulimit -v; ulimit -f")
    log = assembler.run("some text", "sm_90a", 60).log
    assert "SECRET" not in log and "PWD=" in log
    assert log.endswith(f"kernel.ptx\nlog.txt\n{4 << 20}\n{(16 << 20) // 512}\n")
    folder = next(line for line in log.splitlines() if line.startswith("PWD=")).removeprefix("PWD=")
    assert "warplab-ptxas-" in folder and not Path(folder).exists()


def test_what_the_assembler_prints_without_end_is_cut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, "exec yes 'ptxas warning : again'")
    done = assembler.run("", "sm_90a", 60)
    assert not done.image and not done.timed_out and len(done.log) == 4 << 20


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
def test_an_assembler_without_end_is_ended_with_all_that_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named = tmp_path / "pid"
    stand_in(monkeypatch, tmp_path, f"sleep 1000 & echo $! > {named}; sleep 1000")
    for seconds in (1.0, 10.0, 100.0):  # a busy machine may not have started it in one
        assert assembler.run("", "sm_90a", seconds).timed_out
        if named.exists() and named.read_text():
            break
    process = int(named.read_text())
    deadline = time.monotonic() + 60
    while runs(process):
        assert time.monotonic() < deadline, "it still runs"
        time.sleep(0.01)


def runs(process: int) -> bool:
    try:
        said = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return said.rpartition(")")[2].split()[0] not in ("Z", "X")


def test_machine_code_of_a_plan_is_bounded(instant: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assemble, "_MOST_CODE", 1000)
    with pytest.raises(CompileError, match="machine code"):
        assemble.assemble(one_kernel(""), "sm_90a")


def test_code_for_another_architecture_is_a_plan_error(mixed: Plan) -> None:
    with pytest.raises(PlanError, match="sm_80, sm_90a but not for sm_75"):
        assemble.assemble(mixed, "sm_75")
    with pytest.raises(PlanError, match="not an architecture"):
        assemble.assemble(mixed, "hopper")


def test_device_printf_needs_no_library(grab: Grab) -> None:
    plan = grab(NUMBA + "@cuda.jit\ndef k(y):\n    print('y', y[0])\ndef f(x, y):\n    k[1, 1](y)\n")
    assert "vprintf" in plan.kernels["k"].ptx["sm_90a"]
    assert assemble.assemble(plan, "sm_90a").kernels["k"].cubins


@pytest.mark.parametrize(
    "text",
    [
        NUMBA + "@cuda.jit\ndef k(x, y):\n    print(x[0], 7)\n    y[0] = x[0]\ndef f(x, y):\n    k[1, 32](x, y)\n",
        'import cupy\nCODE = r"""extern "C" __device__ int printf(const char*, ...);\n'
        'extern "C" __global__ void k(const float* x, float* y) { y[0] = printf("%d %f", threadIdx.x, x[0]); }"""\n'
        'k = cupy.RawKernel(CODE, "k")\ndef f(x, y):\n    k((1,), (32,), (x, y))\n',
    ],
    ids=["numba", "cuda-c++"],
)
def test_on_the_gpu_nothing_is_printed(grab: Grab, text: str) -> None:
    plan = grab(text)
    (kernel,) = plan.kernels.values()
    written = kernel.ptx["sm_90a"]
    assert "vprintf" in written  # the emulator has it
    silent = without_printing(written)
    assert len(silent.splitlines()) == len(written.splitlines())
    (assembled,) = assemble.assemble(plan, "sm_90a").kernels.values()
    assert b"\0vprintf\0" not in assembled.cubins["sm_90a"].image  # as the name of a symbol
