#!/bin/sh
# One number, four libraries, up to three scales: casts to E8M0, the scale of MX formats.
#
# ml_dtypes 0.6.0, torch 2.13.0 (CPU), gfloat 0.5.2, onnx 1.23.2 (its reference evaluator, round_mode "nearest" and
# its default, "up"). E8M0 has powers of two only, no zero and no sign; 0xFF is NaN.
#
# Seen:
#   * 3.0, halfway between 2 and 4: ml_dtypes, torch and onnx give 4, gfloat gives 2 (the even exponent).
#   * 0.0: ml_dtypes and gfloat give NaN; torch and onnx give 2^-127, so a block of zeros keeps a finite scale.
#   * -1.0: ml_dtypes and gfloat give NaN; torch and onnx drop the sign and give 1.
#   * 2^-127, which E8M0 has: onnx's default rounds it up to 2^-126, though it leaves every other power of two alone.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 ml_dtypes==0.6.0 gfloat==0.5.2 onnx==1.23.2 torch==2.13.0
"$folder/venv/bin/python" - <<'PYTHON'
import gfloat
import ml_dtypes
import numpy as np
import torch
from gfloat.formats import format_info_ocp_e8m0
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

VALUES = np.array([1.5, 3.0, 0.0, -1.0, 2.0**-127], np.float32)


def by_onnx(**attributes):
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT8E8M0, [None])
    model = helper.make_model(helper.make_graph([node], "cast", [x], [y]), opset_imports=[helper.make_opsetid("", 24)])
    return ReferenceEvaluator(model).run(None, {"x": VALUES})[0].view(np.uint8)


def by_gfloat(value):
    return gfloat.encode_float(format_info_ocp_e8m0, gfloat.round_float(format_info_ocp_e8m0, value))


codes = {
    "ml_dtypes": VALUES.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8),
    "torch": torch.from_numpy(VALUES).to(torch.float8_e8m0fnu).view(torch.uint8).numpy(),
    "gfloat": [by_gfloat(float(value)) for value in VALUES],
    "onnx, nearest": by_onnx(round_mode="nearest"),
    "onnx, default": by_onnx(),
}
codes = {name: [int(code) for code in row] for name, row in codes.items()}
print(f"{'':14}", *VALUES)
for name, row in codes.items():
    print(f"{name:14}", *row)
assert codes == {
    "ml_dtypes": [128, 129, 255, 255, 0],
    "torch": [128, 129, 0, 127, 0],
    "gfloat": [128, 128, 255, 255, 0],
    "onnx, nearest": [128, 129, 0, 127, 0],
    "onnx, default": [128, 129, 0, 127, 1],
}
PYTHON
