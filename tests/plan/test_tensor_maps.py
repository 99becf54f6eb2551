"""Tensor maps: the driver's rules, how a submission writes them, how plans keep and check them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.plan.conftest import Grab, Refuse
from warplab.errors import PlanError
from warplab.plan.archive import dumps, loads
from warplab.plan.model import ArrayArgument, Plan, Role, TensorMap
from warplab.plan.tensor_maps import describe, problem

pytestmark = pytest.mark.stored

GOOD = TensorMap("a", 0, "float16", (64, 40), (128,), (64, 8), (1, 1), 128, 128)
A = ArrayArgument("a", "float16", (40, 64), Role.INPUT)
OUT = ArrayArgument("out", "float32", (16,), Role.OUTPUT)

CUPY = '''
import cupy
from warplab.ptx import tensor_map, tensor_map_address

k = cupy.RawKernel(r"""
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void k(const __grid_constant__ Map map, float* out) { out[0] = map.bytes[3]; }
""", "k")
p = cupy.RawKernel(r"""
extern "C" __global__ void p(const void* map, float* out) { out[0] = ((const char*)map)[3]; }
""", "p")

def f(a, out):
    HOST
'''


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"offset": 8}, "multiple of 16"),
        ({"dtype": "complex64"}, "dtype"),
        ({"shape": (64,) * 6, "strides": (16,) * 5, "box": (1,) * 6, "element_strides": (1,) * 6}, "6 dimensions"),
        ({"shape": (64, 0)}, "0 elements"),
        ({"shape": (64, 1 << 33)}, "2**32"),
        ({"strides": (136,)}, "pad the rows"),
        ({"strides": (1 << 40,)}, "below 2**40"),
        ({"strides": (-128,)}, "multiple of 16"),
        ({"strides": ()}, "not those of 2 dimensions"),
        ({"box": (64, 257)}, "257 elements"),
        ({"box": (4, 8)}, "8 bytes"),
        ({"box": (64, 8), "swizzle": 64}, "more than the swizzle"),
        ({"element_strides": (2, 1)}, "innermost element stride"),
        ({"element_strides": (1, 9)}, "1 to 8"),
        ({"swizzle": 256}, "swizzle is 256"),
        ({"l2_promotion": 512}, "L2 promotion"),
        ({"fill": "one"}, "fill"),
        ({"dtype": "int16", "fill": "nan"}, "dtype"),
        ({"dtype": "uint16", "fill": "nan"}, "NaN"),
        ({"fill": "nan"}, ""),
    ],
)
def test_rules_of_the_driver(change: dict, words: str) -> None:
    found = problem(replace(GOOD, **change))
    assert (words in found) if words else found == ""


def test_axes_are_turned_and_strides_of_single_rows_do_not_matter() -> None:
    tensor = describe((3, 5, 64), (5 * 256, 256, 4), "float32", (2, 4, 32), (1, 3, 1), 128, 0, "zero")
    assert (tensor.shape, tensor.strides, tensor.box) == ((64, 5, 3), (256, 1280), (32, 4, 2))
    assert tensor.element_strides == (1, 3, 1) and tensor.nbytes == 3 * 5 * 64 * 4
    assert describe((1, 3), (12, 4), "float32", (1, 4), None, 0, 0, "zero").strides == (16,)
    with pytest.raises(ValueError, match="side by side"):
        describe((4, 8), (4, 16), "float32", (4, 4), None, 0, 0, "zero")
    with pytest.raises(ValueError, match="box needs 2 numbers"):
        describe((4, 8), (32, 4), "float32", (4,), None, 0, 0, "zero")


def grab_with(grab: Grab, host: str) -> Plan:
    return grab(CUPY.replace("HOST", host), A, OUT)


def test_map_by_value_and_by_address(grab: Grab) -> None:
    plan = grab_with(grab, "k((1,), (1,), (tensor_map(a, (8, 64)), out))")
    (argument, _) = plan.launches[0].arguments
    assert argument == replace(GOOD, parameter=argument.parameter)
    assert loads(dumps(plan)) == plan
    plan = grab_with(grab, "p((1,), (1,), (tensor_map_address(tensor_map(a[4:, 8:], (8, 32), swizzle=64)), out))")
    (argument, _) = plan.launches[0].arguments
    assert isinstance(argument, TensorMap)
    assert (argument.offset, argument.shape, argument.strides) == (4 * 128 + 16, (56, 36), (128,))


def test_scratch_and_other_element_types(grab: Grab) -> None:
    host = """t = cupy.zeros((16, 64), cupy.uint16)
    k((1,), (1,), (tensor_map(t, (16, 64), dtype="bfloat16", fill="nan"), out))"""
    plan = grab_with(grab, host)
    argument = plan.launches[0].arguments[0]
    assert isinstance(argument, TensorMap)
    assert (argument.buffer, argument.dtype, argument.fill) == ("scratch0", "bfloat16", "nan")
    assert plan.buffers["scratch0"].role is Role.SCRATCH


def test_numba_gets_an_address(grab: Grab) -> None:
    text = """
    from numba import cuda
    from warplab.ptx import tensor_map, tensor_map_address

    @cuda.jit
    def k(map, out):
        out[0] = map

    def f(a, out):
        k[1, 1](tensor_map_address(tensor_map(a, (8, 64))), out)
    """
    plan = grab(text, A, OUT)
    assert plan.launches[0].arguments[0] == replace(GOOD, parameter="map")
    assert next(iter(plan.kernels.values())).parameters[0].size == 8


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("k((1,), (1,), (tensor_map(a, (8, 63)), out))", "126 bytes, which is not a multiple of 16"),
        ("k((1,), (1,), (tensor_map(a[:, 1:], (8, 32)), out))", "no multiple of 16"),
        ("k((1,), (1,), (tensor_map(a.T, (8, 32)), out))", "side by side"),
        ("p((1,), (1,), (tensor_map(a, (8, 64)), out))", "is given a tensor map"),
        ("k((1,), (1,), (tensor_map_address(tensor_map(a, (8, 64))), out))", "the address of a tensor map"),
        ("k((1,), (1,), (a, out))", "is given an array"),
    ],
)
def test_mistakes_get_one_sentence(refuse: Refuse, host: str, words: str) -> None:
    assert words in refuse(CUPY.replace("HOST", host), A, OUT).message


def test_archive_refuses_maps_beyond_their_buffer(grab: Grab) -> None:
    plan = grab_with(grab, "k((1,), (1,), (tensor_map(a, (8, 64)), out))")
    launch = plan.launches[0]

    def changed(**fields) -> Plan:
        argument = replace(launch.arguments[0], **fields)
        return replace(plan, launches=(replace(launch, arguments=(argument, launch.arguments[1])),))

    for fields, words in (
        ({"shape": (64, 41)}, "outside of buffer 'a'"),
        ({"offset": 16}, "outside of buffer 'a'"),
        ({"buffer": "b"}, "unknown buffer"),
        ({"box": (64, 300)}, "300 elements"),
    ):
        with pytest.raises(PlanError, match=words):
            dumps(changed(**fields))


@pytest.mark.processes
def test_host_arrays_are_no_device_arrays() -> None:
    from warplab.ptx import tensor_map, tensor_map_address

    with pytest.raises(TypeError):
        tensor_map_address(np.zeros(3))
    with pytest.raises(ValueError, match="more than the swizzle"):
        tensor_map(np.zeros((40, 64), np.float32), (8, 64))
