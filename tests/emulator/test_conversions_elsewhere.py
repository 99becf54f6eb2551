"""Conversions to floats of few bits beside those of CUDA's host headers, PyTorch and ml_dtypes: where they agree, and
each of the disagreements that docs/blackwell.md lists."""

from __future__ import annotations

import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cuda import pathfinder

from tests.emulator.alu import run

BITS = {"e4m3": (4, 3), "e5m2": (5, 2), "e2m3": (2, 3), "e3m2": (3, 2), "e2m1": (2, 1)}
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "e2m3": 7.5, "e3m2": 28.0, "e2m1": 6.0}
MODES = ("rz", "rp")


def grid(name: str) -> np.ndarray:
    """All numbers of a format from zero on."""
    exponent_bits, significand = BITS[name]
    codes = np.arange(1 << exponent_bits + significand)
    exponent, fraction = codes >> significand, codes & (1 << significand) - 1
    scale = 2.0 ** (np.maximum(exponent, 1) - (1 << exponent_bits - 1) + 1 - significand)
    values = (fraction + (exponent > 0) * (1 << significand)) * scale
    return values[values <= LARGEST[name]]


def between(name: str) -> np.ndarray:
    """Numbers, ties and float32 beside them, with both signs: no larger than the format's largest."""
    numbers = grid(name).astype(np.float32)
    ties = (numbers[1:] + numbers[:-1]) / 2
    beside = [np.nextafter(ties, np.float32(end)) for end in (0, 1e9)]
    positive = np.concatenate([numbers, ties, *beside])
    return np.concatenate([positive, -positive])


def by_ptx(values: np.ndarray, name: str) -> np.ndarray:
    """The codes that cvt gives on the emulator."""
    bits, zero = values.astype(np.float32).view(np.uint32), np.zeros(values.size, np.uint32)
    if name == "e2m1":
        text = "mov.b16 %h0, 0; mov.b16 {%c0, %c1}, %h0; cvt.rn.satfinite.e2m1x2.f32 %c0, %a1, %a0; "
        return run(text + "mov.b16 %d, {%c0, %c1};", 16, [bits, zero], ".reg .b8 %c<2>;", "sm_100a").astype(np.uint8)
    mode = f"{name[:2]}.satfinite.ue8m0x2" if name in MODES else f"rn.satfinite.{name}x2"
    return run(f"cvt.{mode}.f32 %d, %a1, %a0;", 16, [bits, zero], "", "sm_100a").astype(np.uint8)


def powers() -> np.ndarray:
    """Numbers around powers of two and around ties between them."""
    exponents = np.arange(-148.0, 128.0)
    values = [2.0**exponents * factor for factor in (1, 1.25, 1.5, np.nextafter(np.float32(1.5), np.float32(2)), 1.75)]
    return np.concatenate(values).astype(np.float32)


SOURCE = """
#include <cstdio>
#include <cstdint>
#include <cuda_fp8.h>
#include <cuda_fp6.h>
#include <cuda_fp4.h>
int main()
{
    double d;
    while (fread(&d, 8, 1, stdin) == 1) {
        float f = (float)d;
        uint8_t codes[] = {
            __nv_cvt_float_to_fp8(f, __NV_SATFINITE, __NV_E4M3), __nv_cvt_float_to_fp8(f, __NV_SATFINITE, __NV_E5M2),
            __nv_cvt_float_to_fp6(f, __NV_E2M3, cudaRoundNearest),
            __nv_cvt_float_to_fp6(f, __NV_E3M2, cudaRoundNearest),
            __nv_cvt_float_to_fp4(f, __NV_E2M1, cudaRoundNearest),
            __nv_cvt_float_to_e8m0(f, __NV_SATFINITE, cudaRoundZero),
            __nv_cvt_float_to_e8m0(f, __NV_SATFINITE, cudaRoundPosInf),
            __nv_cvt_double_to_fp4(d, __NV_E2M1, cudaRoundNearest),
        };
        fwrite(codes, 1, sizeof codes, stdout);
    }
}
"""
COLUMNS = (*BITS, *MODES, "e2m1 from double")


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_cudas_host_headers_agree(tmp_path: Path) -> None:
    """Everywhere: NaN, infinity and what is too large too."""
    (tmp_path / "codes.cpp").write_text(SOURCE)
    headers = pathfinder.locate_nvidia_header_directory("cudart")
    assert headers is not None
    command = ["g++", "-O1", f"-I{headers.abs_path}", "codes.cpp", "-o", "codes"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    beyond = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30, 460, 470, 60000, 65000], np.float32)
    values = np.concatenate([*(between(name) for name in BITS), powers(), beyond])
    whole = np.append(values.astype(np.float64), 0.75 - 2**-53)
    done = subprocess.run([tmp_path / "codes"], input=whole.tobytes(), capture_output=True, check=True, timeout=60)
    codes = np.frombuffer(done.stdout, np.uint8).reshape(-1, len(COLUMNS))
    for index, name in enumerate((*BITS, *MODES)):
        assert np.array_equal(codes[:-1, index], by_ptx(values, name)), name
    assert codes[-1, -1] == 1  # rounded once: to 0.5


def test_pytorch_beside_ptx() -> None:
    torch = pytest.importorskip("torch")

    def codes(values, kind) -> np.ndarray:
        return torch.from_numpy(np.array(values)).to(kind).view(torch.uint8).numpy()

    for name, kind in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
        assert np.array_equal(codes(between(name), kind), by_ptx(between(name), name))
        signs = np.array([np.nan, -np.nan], np.float32)
        assert codes(signs, kind).tolist() == [0x7F, 0xFF] and by_ptx(signs, name).tolist() == [0x7F, 0x7F]
    large = np.array([1e6], np.float32)
    assert (codes(large, torch.float8_e5m2)[0], by_ptx(large, "e5m2")[0]) == (0x7C, 0x7B)  # infinity, the largest
    assert (codes(large, torch.float8_e4m3fn)[0], by_ptx(large, "e4m3")[0]) == (0x7E, 0x7E)
    # Below a tie by less than float32 resolves: rounded to float32 first, it lies on the tie, and goes to even.
    tie = 3 * 2.0**-10
    below = np.nextafter(np.float32(tie), np.float32(0))
    assert codes([np.nextafter(tie, 0)], torch.float8_e4m3fn)[0] == 2 and by_ptx(below[None], "e4m3")[0] == 1
    _powers_to_nearest(lambda values: codes(values, torch.float8_e8m0fnu))
    assert codes(np.zeros(1, np.float32), torch.float8_e8m0fnu)[0] == 0


def _powers_to_nearest(codes) -> None:
    """Beside PTX, which rounds down or up: to nearest, ties up, and what is too large is no number."""
    values = powers()
    values = values[values >= np.float32(2.0**-126)]
    down, up = by_ptx(values, "rz"), by_ptx(values, "rp")
    mantissa = np.frexp(values)[0]
    nearest = np.where(mantissa >= 0.75, down.astype(int) + 1, down)
    assert np.array_equal(codes(values), nearest) and np.any(nearest == 255)
    assert np.any(nearest != down) and np.any(nearest != up)
    assert codes(np.array([np.nan, np.inf], np.float32)).tolist() == [255, 255]
    assert by_ptx(np.array([np.inf], np.float32), "rp").tolist() == [254]


def test_ml_dtypes_beside_ptx() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    names = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"} | {n: f"float6_{n}fn" for n in ("e2m3", "e3m2")}
    names["e2m1"] = "float4_e2m1fn"

    def codes(values, name) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.array(values).astype(getattr(ml_dtypes, name)).view(np.uint8)

    for name, kind in names.items():
        assert np.array_equal(codes(between(name), kind), by_ptx(between(name), name)), name
    nan, large = np.array([math.nan], np.float32), np.array([1e6], np.float32)
    for name, of_nan, of_ptx in (("e2m1", 0x8, 0x7), ("e2m3", 0x20, 0x1F), ("e3m2", 0x20, 0x1F), ("e5m2", 0x7E, 0x7F)):
        assert (codes(nan, names[name])[0], by_ptx(nan, name)[0]) == (of_nan, of_ptx)
    assert codes(large, names["e4m3"])[0] == 0x7F and by_ptx(large, "e4m3")[0] == 0x7E
    assert codes([0.75 - 2**-53], names["e2m1"])[0] == 2  # by float32, which has a tie there
    _powers_to_nearest(lambda values: codes(values, "float8_e8m0fnu"))
    assert codes(np.zeros(1, np.float32), "float8_e8m0fnu")[0] == 255
