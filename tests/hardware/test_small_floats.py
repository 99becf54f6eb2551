"""Small formats: values against the published figures and the emulator's decoder, rounding against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplab.emulator.core.tensor.numerics import FORMATS as BITS
from warplab.emulator.core.tensor.numerics import Kind, decode
from warplab.hardware.small_floats import E2M1, E4M3, E5M2, FORMATS, SmallFloat


def nearest(number: SmallFloat, x: float) -> int:
    """By looking at every code, in exact arithmetic: the nearest finite magnitude, of two as near the even code."""
    x = abs(x)
    values = enumerate(number.magnitudes.tolist())
    return min((abs(Fraction(value) - Fraction(x)), code % 2, code) for code, value in values)[2]


@pytest.mark.parametrize(
    ("number", "largest", "smallest_normal", "smallest", "finite"),
    [(E4M3, 448, 2**-6, 2**-9, 254), (E5M2, 57344, 2**-14, 2**-16, 248), (E2M1, 6, 1, 0.5, 16)],
)
def test_ranges_are_the_published_ones(number, largest, smallest_normal, smallest, finite) -> None:
    """Micikevicius et al., arXiv:2209.05433, table 1; OCP MX 1.0, table of FP4."""
    assert (number.largest, number.smallest_normal) == (largest, smallest_normal)
    assert number.magnitudes[1] == smallest
    assert np.isfinite(number.values).sum() == finite


def test_special_codes_are_the_published_ones() -> None:
    assert [code for code in range(256) if np.isnan(E4M3.values[code])] == [0x7F, 0xFF]
    assert not np.isinf(E4M3.values).any()
    assert [code for code in range(256) if np.isinf(E5M2.values[code])] == [0x7C, 0xFC]
    assert [code for code in range(128) if np.isnan(E5M2.values[code])] == [0x7D, 0x7E, 0x7F]
    assert E2M1.values[:8].tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]


@pytest.mark.parametrize(("number", "kind"), [(E4M3, Kind.E4M3), (E5M2, Kind.E5M2)])
def test_every_value_is_the_emulators(number: SmallFloat, kind: Kind) -> None:
    for code in range(256):
        significand, exponent = decode(code, kind)
        if np.isfinite(number.values[code]):
            scale = 0.0 if significand == 0 else 2.0 ** (exponent - BITS[kind, 1])
            assert number.values[code] == significand * scale
        else:
            assert exponent > 1000 and (significand == 0) == np.isnan(number.values[code])


@pytest.mark.parametrize("number", FORMATS.values(), ids=FORMATS)
def test_values_midpoints_and_their_neighbours(number: SmallFloat) -> None:
    """Rounding can only go wrong at a midpoint: each, and the float64 numbers beside it, in exact arithmetic."""
    steps = np.append(number.magnitudes, 2 * number.magnitudes[-1] - number.magnitudes[-2])
    middles = (steps[1:] + steps[:-1]) / 2
    tried = np.concatenate([steps, middles, np.nextafter(middles, 0), np.nextafter(middles, np.inf), [1e300, 5e-324]])
    for x in tried:
        code = nearest(number, x)
        assert number.encode(x) == code, x
        assert number.encode(-x) == code | 1 << number.bits - 1, x


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(list(FORMATS.values())))
def test_any_number_goes_to_the_nearest(x: float, number: SmallFloat) -> None:
    assert abs(number.encode(x)) & (1 << number.bits - 1) - 1 == nearest(number, x)


def test_beyond_the_largest() -> None:
    half_way = {E4M3: 464.0, E5M2: 61440.0}  # between the largest value and the next of its binade
    for number, x in half_way.items():
        below = np.nextafter(x, 0)
        assert number.decode(number.encode(below, saturate=False)) == number.largest
        assert number.rounded([x, 1e9, np.inf, -np.inf]).tolist() == [number.largest] * 3 + [-number.largest]
    assert E4M3.encode(np.array([464.0, -np.inf]), saturate=False).tolist() == [0x7E, 0xFF]
    assert E4M3.encode(np.nextafter(464.0, 999), saturate=False) == 0x7F
    assert E5M2.encode(np.array([61440.0, -np.inf]), saturate=False).tolist() == [0x7C, 0xFC]


def test_nan_stays_nan_and_needs_a_code() -> None:
    assert [int(number.encode(np.nan)) for number in (E4M3, E5M2)] == [0x7F, 0x7F]
    with pytest.raises(ValueError, match="e2m1 has no NaN"):
        E2M1.encode(np.nan)
    with pytest.raises(ValueError, match="saturate=True"):
        E2M1.encode(8.0, saturate=False)


def test_shapes_are_kept() -> None:
    x = np.linspace(-500, 500, 24).reshape(2, 3, 4)
    assert E4M3.encode(x).shape == E4M3.rounded(x).shape == x.shape
