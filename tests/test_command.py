"""`python -m warplab run FILE`: its output and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplab.command import CLEAN, FOUND, USAGE_ERROR, main
from warplab.emulator.lowering import decoder
from warplab.plan import disassembler

pytestmark = pytest.mark.processes

PROGRAM = """import numpy as np
from numba import cuda

@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    out[i] = x[2 * i % 64]

def main(blocks=1):
    print("on the host")
    out = cuda.device_array(32, np.float32)
    copy[blocks, 32](cuda.to_device(np.arange(64.0)), out)
    return out.copy_to_host()

def twice():
    return main(2)

def on(x, out):
    copy[1, 32](x, out)
"""


@pytest.fixture
def write(tmp_path: Path):
    def written(text: str) -> str:
        (tmp_path / "mine.py").write_text(text)
        return str(tmp_path / "mine.py")

    return written


@pytest.mark.cold_captures
def test_main_runs_and_nothing_is_found(write, capsys) -> None:
    assert main(["run", write(PROGRAM)]) == CLEAN
    said = capsys.readouterr().out
    assert "on the host" in said and "returned: float32[32]" in said and "copy, grid (1, 1, 1)" in said
    assert "modelled on an H200, not measured: 3." in said  # a launch takes 2.6 µs, and its loads and stores a few more
    (cost,) = [line for line in said.splitlines() if "out[i] = x[2 * i % 64]" in line]
    assert cost.split()[0] == "7" and cost.split()[-2:] == ["20", "10.0"]  # 16 sectors of doubles, 4 of floats


def test_that_the_machine_code_was_not_known_is_said(write, capsys, monkeypatch) -> None:
    monkeypatch.setattr(disassembler, "nvdisasm", lambda: None)
    monkeypatch.setattr(disassembler.cache, "read", lambda kind, key: None)
    disassembler.disassembled.cache_clear()
    decoder._decoded.cache_clear()
    try:
        assert main(["run", write(PROGRAM)]) == CLEAN
    finally:
        disassembler.disassembled.cache_clear()
        decoder._decoded.cache_clear()
    assert "Notes\n  The counters of copy are those of its PTX" in capsys.readouterr().out


def test_another_function_with_a_fault(write, capsys) -> None:
    assert main(["run", write(PROGRAM), "twice"]) == FOUND
    assert "out of bounds: Line 7" in capsys.readouterr().out


def test_arguments_of_a_file(write, capsys) -> None:
    path = write(PROGRAM)
    assert main(["run", path, "on"]) == USAGE_ERROR
    assert "'on' takes x, out: define ARGUMENTS = (...)" in capsys.readouterr().err
    path = write(PROGRAM + "\nARGUMENTS = np.arange(64.0), np.zeros(32)\n")
    assert main(["run", path, "on"]) == CLEAN
    assert "out: float64[32]" in capsys.readouterr().out


def test_a_program_that_launches_as_it_is_imported(write, capsys) -> None:
    text = PROGRAM.replace("def main(blocks=1)", "def start(blocks=1)").replace("main(2)", "start(2)") + "\nstart()\n"
    assert main(["run", write(text)]) == CLEAN
    assert "copy, grid (1, 1, 1)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def main(:\n", "mine.py is not Python: in line 1, "),
        ("x = 1\n\n1 / 0\n", "Line 3 of mine.py: mine.py raises ZeroDivisionError"),
        ("x = 1\n", "launched no kernel"),
        (
            PROGRAM.replace("out[i] =", "out[i, 0] ="),
            "Line 7 of mine.py: an array of 1 dimension is indexed with 2 numbers",
        ),
    ],
)
def test_what_cannot_be_run_is_one_sentence(text: str, words: str, write, capsys) -> None:
    assert main(["run", write(text)]) == USAGE_ERROR
    said = capsys.readouterr().err
    assert words in said and said.startswith("warplab run: ") and said.count("\n") == 1


CPP = """import cupy as cp
module = cp.RawModule(code=r'''
template <typename T> __global__ void twice(T* x) {
    x[threadIdx.x] *= 2;
}
''', name_expressions=["twice<float>"])
x = cp.arange(32, dtype=cp.float32)
module.get_function("twice<float>")((1,), (32,), (x,))
"""


def test_lines_of_cuda_cpp_are_the_files(write, capsys) -> None:
    assert main(["run", write(CPP)]) == CLEAN
    (cost,) = [line for line in capsys.readouterr().out.splitlines() if "x[threadIdx.x] *= 2;" in line]
    assert cost.split()[0] == "4"
    assert main(["run", write(CPP.replace("*= 2", "*= two"))]) == USAGE_ERROR
    assert capsys.readouterr().err.startswith("warplab run: Line 4 of mine.py: 'two' is not defined.")


def test_a_file_that_is_not_there(tmp_path: Path, capsys) -> None:
    assert main(["run", str(tmp_path / "none.py")]) == USAGE_ERROR
    assert "There is no file" in capsys.readouterr().err
