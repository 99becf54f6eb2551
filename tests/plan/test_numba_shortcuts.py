"""What the capture spares Numba gives the answers that Numba would have worked out."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

# In a process of its own: the shortcuts stay in place.
_COMPARED = """
import operator

from llvmlite import ir
from numba.cuda import types as numba_types
from numba.cuda.core import targetconfig
from numba.cuda.descriptor import cuda_target
from numba.cuda.flags import CUDAFlags
from warplab.plan.capture.of_numba import shortcuts as numba_shortcuts

data = cuda_target.target_context.target_data
i8, i64, f32 = ir.IntType(8), ir.IntType(64), ir.FloatType()
array = ir.LiteralStructType([i8.as_pointer(), i64, ir.ArrayType(i64, 2)])
packed = ir.LiteralStructType([i8, i64], packed=True)
types = [i8, i64, f32, f32.as_pointer(3), array, packed, ir.LiteralStructType([i8, i64]), ir.VectorType(f32, 4)]
named = ir.global_context.get_identified_type("named")
named.set_body(i8, i64)

def layouts():
    return [(t.get_abi_size(data), t.get_abi_alignment(data)) for t in types]

def in_a_context():
    own = ir.Context()
    other = own.get_identified_type("named")
    other.set_body(i8)
    return named.get_abi_size(data), other.get_abi_size(data, context=own)

def flags():
    plain, changed = CUDAFlags(), CUDAFlags()
    changed.debuginfo, changed.fastmath = True, True
    copied = changed.copy()
    equal = [a == b for a in (plain, changed, copied) for b in (plain, changed, copied)]
    del changed.debuginfo
    return [f.values() for f in (plain, changed, copied)], equal, changed == copied, hash(plain) == hash(copied)

def nodes():
    module = ir.Module()
    def location(line, scope):
        return module.add_debug_info("DILocation", {"line": line, "scope": scope})
    scopes = [module.add_debug_info("DISubprogram", {"name": n}, is_distinct=True) for n in "ab"]
    found = [location(line, scope) for line in (1, 2, 1) for scope in scopes]
    return [found.index(node) for node in found], str(module)

def calls():
    typing, t = cuda_target.typing_context, numba_types
    typing.refresh()
    scalars = [t.int32, t.int64, t.uint8, t.float32, t.literal(3), t.boolean]
    pairs = [(a, b) for a in scalars for b in scalars]
    found = [typing.resolve_function_type(o, pair, {}) for o in (operator.add, operator.lt, max) for pair in pairs]
    array = t.Array(t.float32, 1, "C")
    found += [typing.resolve_function_type(operator.getitem, (array, index), {}) for index in scalars[:3]]
    return [str(signature) for signature in found]

asked = [layouts, in_a_context, flags, nodes, calls]
slow = [ask() for ask in asked]
numba_shortcuts.install()
for _ in range(2):
    for ask, answer in zip(asked, slow):
        assert ask() == answer, ask.__name__
print("same")
"""


def test_sizes_flags_and_nodes_are_numbas_own() -> None:
    done = subprocess.run([sys.executable, "-c", _COMPARED], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "same\n", done.stderr
