"""Fits of alpha and bandwidth find again the lines that times were made of."""

from __future__ import annotations

import pytest

from systems.network.fits import fit, predicted


def test_lines_are_found_again() -> None:
    """Three protocols: each is the fastest in its range, as LL, LL128 and Simple are."""
    true = [(5e-6, 10e9), (12e-6, 80e9), (30e-6, 200e9)]

    def seconds(size: float) -> float:
        return min(alpha + size / bandwidth for alpha, bandwidth in true)

    lines = fit([(float(1 << bit), seconds(1 << bit)) for bit in range(10, 31)])
    found = [(line.alpha, line.bandwidth) for line in lines]
    assert len(found) == 3
    for (alpha, bandwidth), expected in zip(found, true, strict=True):
        assert (alpha, bandwidth) == pytest.approx(expected, rel=1e-6)
    for bit in range(10, 30):
        size = 1.5 * (1 << bit)
        assert predicted(lines, size) == pytest.approx(seconds(size), rel=0.2)


def test_one_line_is_enough_for_one_line() -> None:
    points = [(float(size), 3e-6 + size / 1e9) for size in (1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26, 1 << 28)]
    (line,) = fit(points)
    assert (line.alpha, line.bandwidth) == pytest.approx((3e-6, 1e9), rel=1e-9)


def test_neither_alpha_nor_bandwidth_is_negative() -> None:
    for times in ([2e-6, 3e-6, 9e-6], [5e-6, 5e-6, 5e-6], [9e-6, 5e-6, 4e-6]):
        for line in fit(list(zip([1e3, 2e3, 4e3], times, strict=True))):
            assert line.alpha >= 0 and line.bandwidth > 0
    with pytest.raises(ValueError, match="two points"):
        fit([(1.0, 1.0)])
