"""Occupancy against the calculator that ships with the CUDA toolkit, cuda_occupancy.h, compiled here."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from warplab.errors import PlanError
from warplab.plan.limits import LIMITS
from warplab.plan.occupancy import Limiter, occupancy

# (major, minor): warps per SM, reserved shared memory, shared memory per SM, opt-in per block; from the CUDA C++
# Programming Guide's table of technical specifications, as the runtime reports them in cudaDeviceProp.
DEVICES = {
    (7, 0): (64, 0, 98304, 98304),
    (7, 5): (32, 0, 65536, 65536),
    (8, 0): (64, 1024, 167936, 166912),
    (8, 6): (48, 1024, 102400, 101376),
    (8, 9): (48, 1024, 102400, 101376),
    (9, 0): (64, 1024, 233472, 232448),
    (10, 0): (64, 1024, 233472, 232448),
    (10, 3): (64, 1024, 233472, 232448),
    (12, 0): (48, 1024, 102400, 101376),
    (12, 1): (48, 1024, 102400, 101376),
}
PROGRAM = r"""
#include <cuda_occupancy.h>
#include <cstdio>
int main() {
    int major, minor, warps, reserved, sm, optin, threads, regs, stat, dyn;
    while (scanf("%d %d %d %d %d %d %d %d %d %d", &major, &minor, &warps, &reserved, &sm, &optin, &threads, &regs,
                 &stat, &dyn) == 10) {
        cudaOccDeviceProp p = {};
        p.computeMajor = major; p.computeMinor = minor; p.maxThreadsPerBlock = 1024;
        p.maxThreadsPerMultiprocessor = warps * 32; p.regsPerBlock = 65536; p.regsPerMultiprocessor = 65536;
        p.warpSize = 32; p.sharedMemPerBlock = 49152; p.sharedMemPerMultiprocessor = sm; p.numSms = 100;
        p.sharedMemPerBlockOptin = optin; p.reservedSharedMemPerBlock = reserved;
        cudaOccFuncAttributes a = {};
        a.maxThreadsPerBlock = 1024; a.numRegs = regs; a.sharedSizeBytes = stat;
        a.partitionedGCConfig = PARTITIONED_GC_OFF; a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        a.maxDynamicSharedSizeBytes = dyn;
        cudaOccDeviceState s = {};
        s.cacheConfig = CACHE_PREFER_NONE; s.carveoutConfig = 100;
        cudaOccResult r;
        cudaOccError e = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, threads, dyn);
        printf("%d %d %u\n", (int)e, e ? 0 : r.activeBlocksPerMultiprocessor, e ? 0 : r.limitingFactors);
    }
}
"""
FLAGS = {Limiter.WARPS: 1, Limiter.REGISTERS: 2, Limiter.SHARED_MEMORY: 4, Limiter.BLOCKS: 8}


def header_folder() -> Path | None:
    from cuda import pathfinder

    found = pathfinder.find_nvidia_header_directory("cudart")
    return Path(found) if found and Path(found, "cuda_occupancy.h").exists() else None


@pytest.mark.processes
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_equals_the_toolkits_calculator(tmp_path: Path) -> None:
    folder = header_folder()
    if folder is None:
        pytest.skip("needs the CUDA toolkit's headers")
    (tmp_path / "occ.cpp").write_text(PROGRAM)
    subprocess.run(["g++", "-w", f"-I{folder}", "occ.cpp", "-o", "occ"], cwd=tmp_path, check=True)
    rng = random.Random(0)
    cases = []
    for device in DEVICES:
        for _ in range(600):
            threads = rng.choice([rng.randint(1, 1024), 32 * rng.randint(1, 32)])
            shared = [
                rng.choice([0, rng.randint(0, 49152), rng.randint(0, 8192)]),
                rng.choice([0, rng.randint(0, 250_000)]),
            ]
            cases.append((device, threads, rng.randint(1, 255), *shared))
    lines = [" ".join(map(str, [*d, *DEVICES[d], *rest])) for d, *rest in cases]
    done = subprocess.run([tmp_path / "occ"], input="\n".join(lines), capture_output=True, text=True, check=True)
    for (device, threads, registers, static, dynamic), line in zip(cases, done.stdout.splitlines(), strict=True):
        error, blocks, limiting = map(int, line.split())
        assert error == 0
        ours = occupancy(f"sm_{device[0]}{device[1]}", threads, registers, static, dynamic)
        assert ours.blocks == blocks, (device, threads, registers, static, dynamic)
        if blocks:
            assert sum(FLAGS[limiter] for limiter in ours.limiters) == limiting


@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "shared", "blocks", "limiter", "fraction"),
    [
        ("sm_80", 256, 32, 0, 8, Limiter.WARPS, 1.0),
        ("sm_80", 1024, 64, 0, 1, Limiter.REGISTERS, 0.5),
        ("sm_75", 1024, 32, 0, 1, Limiter.WARPS, 1.0),
        ("sm_86", 1024, 32, 0, 1, Limiter.WARPS, 32 / 48),
        ("sm_90a", 128, 168, 0, 3, Limiter.REGISTERS, 12 / 64),
        ("sm_90a", 384, 168, 200 * 1024, 1, Limiter.SHARED_MEMORY, 12 / 64),
        ("sm_90a", 32, 16, 0, 32, Limiter.BLOCKS, 0.5),
        ("sm_90a", 128, 32, 228 * 1024, 0, Limiter.SHARED_MEMORY, 0.0),
    ],
)
def test_cases_worked_by_hand(
    architecture: str, threads: int, registers: int, shared: int, blocks: int, limiter: Limiter, fraction: float
) -> None:
    result = occupancy(architecture, threads, registers, 0, shared)
    assert (result.blocks, result.fraction) == (blocks, fraction)
    assert limiter in result.limiters


def test_the_table_is_the_guides() -> None:
    for device, (warps, reserved, shared, opt_in) in DEVICES.items():
        limits = LIMITS[device]
        assert (limits.warps, limits.reserved_shared, limits.shared, limits.block_shared) == (
            *(warps, reserved, shared, opt_in),
        )


def test_unknown_architectures_and_impossible_numbers() -> None:
    for name in ("sm_35", "compute_90", "90"):
        with pytest.raises(PlanError):
            occupancy(name, 32, 32)
    with pytest.raises(ValueError):
        occupancy("sm_80", 0, 32)
