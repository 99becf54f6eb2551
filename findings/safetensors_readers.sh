# safetensors writes MX scales and packed FP4 from PyTorch's tensors, and most of its own readers cannot read them.
#
# safetensors 0.8.0, torch 2.13.0 (CPU), ml_dtypes 0.6.0, numpy 2.4.6. A tensor of 4 x 8 bytes is saved as
# float8_e8m0fnu, float4_e2m1fn_x2 and float8_e4m3fn, and read four ways, and by its first two rows.
#
# Seen:
#   * safetensors.torch.load_file reads all three. safetensors.torch.load, which takes the same file as bytes, raises
#     KeyError for the scales ('F8_E8M0') and for FP4 ('F4').
#   * safetensors.numpy.save writes ml_dtypes' float8_e4m3fn, float8_e8m0fnu and bfloat16. safetensors.numpy.load raises
#     KeyError for each of them, so it cannot read what its neighbour has just written.
#   * The header counts FP4 values (4 x 16), PyTorch's dtype counts bytes (4 x 8). get_slice("weights")[0:2] therefore
#     raises "shape '[4, 16]' is invalid for input of size 32": a loader that reads its own rank's rows cannot.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q safetensors==0.8.0 torch==2.13.0 ml_dtypes==0.6.0 numpy==2.4.6
"$folder/venv/bin/python" - "$folder/weights.safetensors" << 'END'
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from safetensors import safe_open


def outcome(read):
    try:
        return str(tuple(read().shape))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


path, seen = sys.argv[1], {}
for name in ("float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn_x2"):
    values = torch.arange(32, dtype=torch.uint8).reshape(4, 8).view(getattr(torch, name))
    safetensors.torch.save_file({"weights": values}, path)
    seen[name] = (
        outcome(lambda: safetensors.torch.load_file(path)["weights"]),
        outcome(lambda: safetensors.torch.load(Path(path).read_bytes())["weights"]),
        outcome(lambda: safe_open(path, "pt").get_slice("weights")[0:2]),
    )
for name in ("float8_e4m3fn", "float8_e8m0fnu", "bfloat16"):
    written = safetensors.numpy.save({"weights": np.ones((4, 8), getattr(ml_dtypes, name))})
    seen["numpy", name] = outcome(lambda: safetensors.numpy.load(written)["weights"])
for name, outcomes in seen.items():
    print(name, outcomes)

invalid = "RuntimeError: shape '[4, 16]' is invalid for input of size 32"
assert seen == {
    "float8_e4m3fn": ("(4, 8)", "(4, 8)", "(2, 8)"),
    "float8_e8m0fnu": ("(4, 8)", "KeyError: 'F8_E8M0'", "(2, 8)"),
    "float4_e2m1fn_x2": ("(4, 8)", "KeyError: 'F4'", invalid),
    ("numpy", "float8_e4m3fn"): "KeyError: 'F8_E4M3'",
    ("numpy", "float8_e8m0fnu"): "KeyError: 'F8_E8M0'",
    ("numpy", "bfloat16"): "KeyError: 'BF16'",
}, "this has changed"
END
