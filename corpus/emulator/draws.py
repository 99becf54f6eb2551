"""Where inputs come from: each function draws an array from a generator, or makes a function that does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Shape, np.dtype], np.ndarray]


def drawn(generator: np.random.Generator, source: Draw, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """The next array of a kernel's inputs."""
    values = np.asarray(source(generator, shape, dtype))
    return np.ascontiguousarray(values.astype(dtype, copy=False).reshape(shape))


# Values at which arithmetic has rules of its own; each is rounded to the dtype.
_SPECIAL = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, np.inf, -np.inf, np.nan, 65504.0, 65519.0, 65520.0, -65536.0),
    *(2.0**-14, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, 2.0**-126, 2.0**-127, 2.0**-149, -(2.0**-150), 3.4028234e38),
    *(2147483647.0, 2147483648.0, -2147483648.0, 4294967296.0, 9.3e18, 1e300, 1e-300, 255.5, 127.5, -129.0, 1 / 3),
)


def normal(generator: np.random.Generator, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Close to N(0, 1)."""
    return generator.standard_normal(shape).astype(dtype)


def bits(generator: np.random.Generator, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Any bits: any integer, or any float with NaNs, infinities and subnormal numbers."""
    return np.frombuffer(generator.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)


def plain(generator: np.random.Generator, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """`normal` for floats, `bits` for integers."""
    return normal(generator, shape, dtype) if dtype.kind == "f" else bits(generator, shape, dtype)


def zeros(generator: np.random.Generator, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Nothing but zeros."""
    return np.zeros(shape, dtype)


def special(generator: np.random.Generator, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """A third special values, a third any bits, a third ordinary numbers."""
    with np.errstate(over="ignore", under="ignore"):
        chosen = generator.choice(_SPECIAL, shape).astype(dtype)
    which = generator.integers(0, 3, shape)
    return np.choose(which, [chosen, bits(generator, shape, dtype), normal(generator, shape, dtype)])


def bfloats(generator: np.random.Generator, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Close to N(0, 1) as bfloat16, which NumPy lacks: the upper halves of float32, as uint16."""
    return (generator.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(dtype)


def packed_halves(generator: np.random.Generator, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Two halves close to N(0, 1) in each 32-bit word."""
    return generator.standard_normal((*shape, 2)).astype(np.float16).view(dtype).reshape(shape)


def packed_bfloats(generator: np.random.Generator, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """Two bfloat16 close to N(0, 1) in each 32-bit word."""
    return bfloats(generator, (*shape, 2), np.dtype(np.uint16)).view(dtype).reshape(shape)


def float_bits(generator: np.random.Generator, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """The bits of a float32 close to N(0, 1) in each word."""
    return generator.standard_normal(shape).astype(np.float32).view(dtype)


def identity(generator: np.random.Generator, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """0, 1, 2, ..."""
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


def integers(low: int, high: int) -> Draw:
    """Whole numbers in [low, high), in any dtype."""
    return lambda generator, shape, dtype: generator.integers(low, high, shape).astype(dtype)


def uniform(low: float, high: float) -> Draw:
    """Evenly spread over [low, high)."""
    return lambda generator, shape, dtype: generator.uniform(low, high, shape).astype(dtype)


def fixed(values: object) -> Draw:
    """Always these values."""
    return lambda generator, shape, dtype: np.asarray(values).astype(dtype)
