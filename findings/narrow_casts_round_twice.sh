#!/bin/sh
# A cast from float64 to bfloat16 or FP8 rounds twice in ml_dtypes, though one from float64 to float16 rounds once.
#
# numpy 2.4.6, ml_dtypes 0.6.0. 1 + u/2 + 2^-40 lies just above the middle of two neighbours (u is the format's spacing
# at 1), so rounding to nearest must go up.
#
# Seen: NumPy's float16 goes up. ml_dtypes' bfloat16, float8_e4m3fn, float8_e5m2 and float4_e2m1fn go down: float64 is
# first rounded to float32, which drops the 2^-40, and the tie that this makes goes to the even neighbour. A float64
# reference that is cast to FP8 "to see what the GPU should give" is thus off by a whole step in such places.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 ml_dtypes==0.6.0
"$folder/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy as np

FORMATS = {
    "float16": (np.float16, 2.0**-10),
    "bfloat16": (ml_dtypes.bfloat16, 2.0**-7),
    "float8_e4m3fn": (ml_dtypes.float8_e4m3fn, 2.0**-3),
    "float8_e5m2": (ml_dtypes.float8_e5m2, 2.0**-2),
    "float4_e2m1fn": (ml_dtypes.float4_e2m1fn, 2.0**-1),
}
up = {}
for name, (dtype, spacing) in FORMATS.items():
    value = np.float64(1 + spacing / 2 + 2.0**-40)
    up[name] = float(np.array([value]).astype(dtype).astype(np.float64)[0]) == 1 + spacing
    print(f"{name:14} {'up, right' if up[name] else 'down, wrong'}")
assert up == dict.fromkeys(FORMATS, False) | {"float16": True}
PYTHON
