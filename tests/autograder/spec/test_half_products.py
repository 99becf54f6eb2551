"""Products next to the end of float16's range, against what rounding to nearest may give there."""

import numpy as np
import pytest

from autograder.spec.half_products import bound, expected
from autograder.worker.compare import compare


def accepted(a: list[float], b: list[float], c: float) -> bool:
    """Whether the product of a row and a column may be `c`."""
    row, column = np.array([a], dtype=np.float16), np.array([b], dtype=np.float16).T
    values = {"a": row, "b": column}
    got = np.array([[c]], dtype=np.float16)
    return compare("c", got, expected(np, values)["c"], bound(np, values)["c"]).passed


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("a", "b", "right", "wrong"),
    [
        (
            [256, 16],
            [255.875, 1],
            [65504, np.inf],
            [65408, -np.inf, np.nan],
        ),  # 65,520, the tie
        ([256, 20], [255.875, 1], [np.inf], [65504, 65472, -np.inf]),  # 65,524 rounds to infinity, surely
        ([256, 256], [255.875, 255.875], [np.inf], [65504, 0]),  # twice as much
        ([255, 1], [255.875, 0], [65248], [np.inf, 65344]),  # 65,248.125
    ],
)
def test_the_last_number_or_infinity(a, b, right, wrong, sign) -> None:
    for c in right:
        assert accepted([sign * x for x in a], b, sign * c), c
    for c in wrong:
        assert not accepted([sign * x for x in a], b, sign * c), c
