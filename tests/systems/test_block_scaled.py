"""Products of MXFP8 and NVFP4 by tcgen05 on the emulator, against the sums of what codes and scales stand for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import systems.block_scaled
from warplab.emulator import execute
from warplab.hardware.small_floats import E2M1, E4M3
from warplab.plan.capture.submission import capture
from warplab.plan.model import ArrayArgument, HostCall, Role

pytestmark = pytest.mark.processes

SOURCE = Path(systems.block_scaled.__file__).with_name("product.py")
RNG = np.random.default_rng(4)


def drawn(kind: str, rows: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, scales in words, and the numbers that they stand for."""
    if kind == "mxfp8":
        codes = E4M3.encode(RNG.normal(size=(rows, k)))
        scales = RNG.integers(124, 131, (rows, k // 32), dtype=np.uint8)
        return (
            codes,
            scales.view(np.uint32),
            E4M3.decode(codes) * np.repeat(2.0 ** (scales.astype(int) - 127), 32, axis=1),
        )
    codes = E2M1.encode(2 * RNG.normal(size=(rows, k)))
    scales = E4M3.encode(RNG.uniform(0.25, 4, (rows, k // 16)))
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)
    return packed, scales.view(np.uint32), E2M1.decode(codes) * np.repeat(E4M3.decode(scales), 16, axis=1)


@pytest.mark.parametrize("kind", ["mxfp8", "nvfp4"])
@pytest.mark.parametrize(("m", "n", "k"), [(128, 128, 256), (200, 132, 768), (1, 4, 256)])
def test_a_product_is_that_of_codes_times_scales(kind: str, m: int, n: int, k: int) -> None:
    (a, scales_a, left), (b, scales_b, right) = drawn(kind, m, k), drawn(kind, n, k)
    arrays = {"a": a, "b": b, "scales_a": scales_a, "scales_b": scales_b}
    arguments = [ArrayArgument(name, str(one.dtype), one.shape, Role.INPUT) for name, one in arrays.items()]
    call = HostCall(kind, (*arguments, ArrayArgument("c", "float32", (m, n), Role.OUTPUT)))
    (plan,) = capture(SOURCE, [call], ("sm_100a",))
    for seed in (None, 1):
        run = execute(plan, arrays, architecture="sm_100a", seed=seed)
        assert run.findings == ()
        exact = left @ right.T
        assert np.abs(run.outputs["c"] - exact).max() <= 1e-5 * (np.abs(left) @ np.abs(right).T).max()
        tiles = -(-m // 128) * -(-n // 128)
        assert run.total.tensor_instructions == tiles * k // (32 if kind == "mxfp8" else 64)
