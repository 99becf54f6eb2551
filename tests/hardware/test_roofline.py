import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplab.hardware import Bound, Roofline

positive = st.floats(min_value=1e3, max_value=1e16)


def test_both_ceilings() -> None:
    roof = Roofline(peak_flops=60e12, bandwidth=4e12)
    assert roof.ridge == 15
    assert roof.attainable(1) == 4e12 and roof.bound(1) is Bound.MEMORY
    assert roof.attainable(100) == 60e12 and roof.bound(100) is Bound.COMPUTE
    assert roof.attainable(15) == 60e12 and roof.bound(15) is Bound.COMPUTE


def test_floor_of_an_axpy_is_its_bytes() -> None:
    n = 2**26
    assert Roofline(60e12, 4e12).floor_seconds(2 * n, 12 * n) == pytest.approx(12 * n / 4e12)


@given(positive, positive, positive, positive)
def test_nothing_is_faster_than_the_floor(peak: float, bandwidth: float, flops: float, moved: float) -> None:
    roof = Roofline(peak, bandwidth)
    assert flops / roof.floor_seconds(flops, moved) == pytest.approx(roof.attainable(flops / moved), rel=1e-9)


@pytest.mark.parametrize(("peak", "bandwidth"), [(0, 1), (1, 0), (-1, 1), (float("nan"), 1)])
def test_ceilings_are_positive(peak: float, bandwidth: float) -> None:
    with pytest.raises(ValueError, match="positive ceilings"):
        Roofline(peak, bandwidth)
