#!/bin/sh
# Two quantisers for the same MXFP4 file format round half of all ties to different values.
#
# gguf 0.19.0 (the Python package of llama.cpp's files) beside ml_dtypes 0.6.0's float4_e2m1fn. A block of 32 values
# whose largest is 6 has scale 1 in both, so only the rounding to E2M1 (0, 0.5, 1, 1.5, 2, 3, 4, 6) differs.
#
# Seen: ml_dtypes rounds ties to the even code, as the OCP MX specification and the GPU's cvt.rn.satfinite.e2m1x2 do:
# 0.75 -> 1, 1.75 -> 2, 3.5 -> 4. gguf takes the first of equally near values, which is the smaller magnitude:
# 0.75 -> 0.5, 1.75 -> 1.5, 3.5 -> 3.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 ml_dtypes==0.6.0 gguf==0.19.0
"$folder/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy as np
from gguf import GGMLQuantizationType, quants

MXFP4 = GGMLQuantizationType.MXFP4
block = np.zeros((1, 32), np.float32)
block[0, :8] = 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 6
packed = quants.quantize(block, MXFP4)
assert packed[0, 0] == 127  # the scale is 2^0
by_gguf = quants.dequantize(packed, MXFP4)[0, :8]
by_ml_dtypes = block[0, :8].astype(ml_dtypes.float4_e2m1fn).astype(np.float32)
print("value    ", *block[0, :8])
print("gguf     ", *by_gguf)
print("ml_dtypes", *by_ml_dtypes)
assert by_gguf.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
assert by_ml_dtypes.tolist() == [0, 1, 1, 2, 2, 4, 4, 6]
PYTHON
