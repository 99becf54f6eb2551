#!/bin/sh
# numba-cuda, installed with `pip install --target`, is silently not used: Numba's own old CUDA target is.
#
# numba 0.68.1, numba-cuda 0.30.4 (no GPU needed): once installed into a virtual environment, once with --target into a
# folder that PYTHONPATH names.
#
# Seen: numba.cuda.implementation is "NVIDIA" in the environment and "Built-in" from the folder, without a warning.
# numba-cuda replaces `numba.cuda` from a .pth file, and Python reads those only in site-packages. Containers, zip layers
# and clusters whose packages come by PYTHONPATH thus compile with the target that NVIDIA no longer develops.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
python3 -m venv "$folder/empty"
"$folder/venv/bin/pip" install -q numba==0.68.1 numba-cuda==0.30.4
"$folder/empty/bin/pip" install -q --target "$folder/packages" numba==0.68.1 numba-cuda==0.30.4
ask='import numba.cuda; print(numba.cuda.implementation)'
whole=$("$folder/venv/bin/python" -W error::DeprecationWarning -c "$ask")
by_path=$(PYTHONPATH="$folder/packages" "$folder/empty/bin/python" -W error::DeprecationWarning -c "$ask")
echo "environment: $whole; --target: $by_path"
test "$whole" = NVIDIA
test "$by_path" = Built-in
