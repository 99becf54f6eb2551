#!/bin/sh
# In a kernel of NVIDIA Warp, `//` and `%` do not belong together.
#
# warp-lang 1.19.0, device "cpu". Python promises a == (a // b) * b + a % b.
#
# Seen: in a kernel `//` rounds down, as Python's does, and `%` truncates, as C++'s does. For a = -7 and b = 3 they give
# -3 and -1, so (a // b) * b + a % b is -10. An index that is wrapped with both, row = i // n and column = i % n, leaves
# the array for every negative i; the same two lines outside the kernel do not.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.4.6 warp-lang==1.19.0
cat > "$folder/kernel.py" <<'PYTHON'
import numpy as np
import warp as wp

wp.config.quiet = True


@wp.kernel
def divide(a: wp.array(dtype=int), b: wp.array(dtype=int), quotient: wp.array(dtype=int), rest: wp.array(dtype=int)):
    i = wp.tid()
    quotient[i] = a[i] // b[i]
    rest[i] = a[i] % b[i]


a = np.array([7, -7, 7, -7], np.int32)
b = np.array([3, 3, -3, -3], np.int32)
quotient, rest = (wp.zeros(4, dtype=int, device="cpu") for _ in range(2))
inputs = [wp.array(x, dtype=int, device="cpu") for x in (a, b)]
wp.launch(divide, dim=4, inputs=[*inputs, quotient, rest], device="cpu")
print("a              ", *a)
print("b              ", *b)
print("a // b         ", *quotient.numpy())
print("a % b          ", *rest.numpy())
sums = quotient.numpy() * b + rest.numpy()
print("(a//b)*b + a%b ", *sums)
assert quotient.numpy().tolist() == [7 // 3, -7 // 3, 7 // -3, -7 // -3]
assert rest.numpy().tolist() == [1, -1, 1, -1]
assert sums.tolist() == [7, -10, 10, -7]
PYTHON
"$folder/venv/bin/python" "$folder/kernel.py"
