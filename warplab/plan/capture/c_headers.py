"""Headers that nvcc finds in the host's compiler and that NVRTC lacks, as far as device code has a use for them.

NVRTC knows printf, assert and the functions of math.h without any header. Types and templates of the standard library
come from libcu++, whose names are those of the standard in another namespace. cub/cub.cuh is CUB's collectives of
threads, warps and blocks: what is device-wide in CUB are host functions, which launch kernels of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

_EMPTY: tuple[str, ...] = (
    "stdio.h",
    "stdlib.h",
    "string.h",
    "assert.h",
    "math.h",
    "iostream",
    "vector",
    "string",
    "chrono",
    "fstream",
)
_EMPTY += ("cstdio", "cstdlib", "cstring", "cassert", "iomanip", "sstream", "time.h", "ctime", "memory", "sys/types.h")
_STANDARD: tuple[str, ...] = ("type_traits", "limits", "cmath", "cstddef", "tuple", "array", "functional")
_STANDARD += ("utility", "numeric", "complex", "optional", "bit", "initializer_list", "iterator")
# Constants of ISO C that libcu++ leaves to the host's compiler: IEEE 754 floats, 64-bit long.
_FLOATS = {
    "FLT_MAX": "3.402823466e+38f", "FLT_MIN": "1.175494351e-38f", "FLT_EPSILON": "1.192092896e-07f",
    "DBL_MAX": "1.7976931348623158e+308", "DBL_MIN": "2.2250738585072014e-308", "DBL_EPSILON": "2.2204460492503131e-16",
    "FLT_DIG": "6", "DBL_DIG": "15", "FLT_MANT_DIG": "24", "DBL_MANT_DIG": "53",
}  # fmt: skip
_BOUNDS = {
    "CHAR_BIT": "8", "SCHAR_MAX": "127", "UCHAR_MAX": "255", "SHRT_MIN": "(-32767 - 1)", "SHRT_MAX": "32767",
    "USHRT_MAX": "65535", "INT_MAX": "2147483647", "INT_MIN": "(-2147483647 - 1)", "UINT_MAX": "4294967295u",
    "LONG_MAX": "9223372036854775807l", "LONG_MIN": "(-9223372036854775807l - 1)",
    "ULONG_MAX": "18446744073709551615ul",
    "LLONG_MAX": "9223372036854775807ll", "LLONG_MIN": "(-9223372036854775807ll - 1)",
    "ULLONG_MAX": "18446744073709551615ull",
}  # fmt: skip
_SIZES = {"SIZE_MAX": "18446744073709551615ul"}
for _bits in (8, 16, 32, 64):
    _suffix = "ll" if _bits == 64 else ""
    _most = (1 << _bits - 1) - 1
    _SIZES |= {f"INT{_bits}_MAX": f"{_most}{_suffix}", f"INT{_bits}_MIN": f"(-{_most}{_suffix} - 1)"}
    _SIZES[f"UINT{_bits}_MAX"] = f"{2 * _most + 1}u{_suffix}"
_ALGORITHMS = ("min", "max", "clamp", "lower_bound", "upper_bound", "fill", "copy", "swap_ranges")
_INTEGERS = "\n".join(f"using cuda::std::{sign}int{size}_t;" for sign in ("", "u") for size in (8, 16, 32, 64))
_POINTERS = "using cuda::std::intptr_t;\nusing cuda::std::uintptr_t;\n"
_CUB = (
    *("block/block_adjacent_difference", "block/block_discontinuity", "block/block_exchange", "block/block_histogram"),
    *("block/block_load", "block/block_merge_sort", "block/block_radix_rank", "block/block_radix_sort"),
    *("block/block_reduce", "block/block_run_length_decode", "block/block_scan", "block/block_shuffle"),
    *("block/block_store", "thread/thread_load", "thread/thread_operators", "thread/thread_reduce"),
    *("thread/thread_scan", "thread/thread_search", "thread/thread_store", "warp/warp_exchange", "warp/warp_load"),
    *("warp/warp_merge_sort", "warp/warp_reduce", "warp/warp_scan", "warp/warp_store"),
)


def _standard(name: str) -> str:
    return _included("cuda/std/cstddef", f"cuda/std/{name}") + "namespace std { using namespace cuda::std; }\n"


def _included(*names: str) -> str:
    return "#pragma once\n" + "".join(f"#include <{name}>\n" for name in names)


def _constants(values: Mapping[str, str]) -> str:
    return "#pragma once\n" + "".join(f"#ifndef {n}\n#define {n} {v}\n#endif\n" for n, v in values.items())


def headers() -> Mapping[str, str]:
    """The text of each header by the name that it is included by."""
    return (
        dict.fromkeys(_EMPTY, "#pragma once\n")
        | {name: _standard(name) for name in _STANDARD}
        | {name: _constants(_FLOATS) for name in ("float.h", "cfloat")}
        | {name: _constants(_BOUNDS) for name in ("limits.h", "climits")}
        | {
            "stddef.h": _included("cuda/std/cstddef") + "using cuda::std::size_t;\n",
            "cstdint": "#include <stdint.h>\n" + _standard("cstdint"),
            "stdint.h": _constants(_SIZES) + _included("cuda/std/cstdint") + f"{_INTEGERS}\n{_POINTERS}",
            "algorithm": _included(*(f"cuda/std/__algorithm/{n}.h" for n in _ALGORITHMS)) + _standard("utility"),
            "cub/cub.cuh": _included(*(f"cub/{name}.cuh" for name in _CUB)),
        }
    )
