#!/bin/sh
# The mean of a thousand ones is 0.26 in bfloat16 and 0.016 in FP8, while their product with themselves is 1000.
#
# numpy 2.4.6, ml_dtypes 0.6.0, arrays of 1,000 ones.
#
# Seen: NumPy adds its own float16 in float32 (sum 1000, mean 1). For the types of ml_dtypes the accumulator is the type
# itself, and a sum stops where adding one changes nothing: 256 in bfloat16 (mean 0.256), 16 in float8_e4m3fn (0.0156),
# 8 in float8_e5m2, 4 in float4_e2m1fn; std of the ones is 0.5 in bfloat16. `a @ b` adds the same numbers in float32 and
# gives float32, 1000. np.dot(a, b) gives the narrow type, in which 1000 is NaN for float8_e4m3fn. A reference for a
# reduction or a quantised product must therefore name its accumulator: sum(dtype=np.float32), or @.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 ml_dtypes==0.6.0
"$folder/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy as np

SUMS = {
    np.float16: 1000,
    ml_dtypes.bfloat16: 256,
    ml_dtypes.float8_e4m3fn: 16,
    ml_dtypes.float8_e5m2: 8,
    ml_dtypes.float4_e2m1fn: 4,
}
for dtype, expected in SUMS.items():
    ones = np.ones(1000, dtype)
    row, column = ones[None], ones[:, None]
    print(f"{dtype.__name__:14} sum {ones.sum()!s:6} mean {ones.mean()!s:10}", "@", (row @ column)[0, 0])
    assert float(ones.sum()) == expected and float(ones.sum(dtype=np.float32)) == 1000
    assert float((row @ column)[0, 0]) == 1000
bfloat = np.ones(1000, ml_dtypes.bfloat16)
eight = np.ones(1000, ml_dtypes.float8_e4m3fn)
assert float(bfloat.mean()) == 0.255859375 and float(eight.mean()) == 0.015625 and float(bfloat.std()) > 0.5
assert (eight[None] @ eight[:, None]).dtype == np.float32
assert np.dot(eight, eight).dtype == ml_dtypes.float8_e4m3fn and np.isnan(np.dot(eight, eight))
PYTHON
