"""Messages between a parent and its worker: JSON with arrays and bytes beside it, never pickle.

A message is one length-prefixed frame: a JSON header, in which every array and byte string is replaced by a reference,
followed by their raw bytes in order.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

import numpy as np

_PREFIX = struct.Struct("<QQ")  # bytes of the header, bytes of the blobs
_REFERENCE = "__blob__"
_DTYPES = frozenset(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)) | {
    *("bool", "float16", "float32", "float64", "complex64", "complex128"),
}
MOST_FROM_A_STRANGER = 512 << 20  # bytes of a message from a process that a stranger may have taken over


def encode(message: Any) -> bytes:
    """The frame of a message built of dicts with string keys, lists, JSON scalars, NumPy arrays and scalars, and bytes.

    Raises TypeError for anything else.
    """
    blobs: list[bytes] = []

    def pack(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            blobs.append(np.ascontiguousarray(value).tobytes())
            return {_REFERENCE: len(blobs[-1]), "dtype": value.dtype.name, "shape": list(value.shape)}
        if isinstance(value, bytes):
            blobs.append(value)
            return {_REFERENCE: len(value)}
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, dict):
            return {key: pack(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [pack(item) for item in value]
        return value

    header = json.dumps(pack(message)).encode()
    body = b"".join(blobs)
    return _PREFIX.pack(len(header), len(body)) + header + body


def decode(header: bytes, body: bytes) -> Any:
    """The message of a frame's two parts; arrays come back writable. Raises ValueError for what is no message."""
    position = 0

    def unpack(value: Any) -> Any:
        nonlocal position
        if isinstance(value, list):
            return [unpack(item) for item in value]
        if not isinstance(value, dict):
            return value
        if _REFERENCE not in value:
            return {key: unpack(item) for key, item in value.items()}
        size = value[_REFERENCE]
        if type(size) is not int or not 0 <= size <= len(body) - position:
            raise ValueError("a message refers to bytes that it does not have")
        blob = body[position : position + size]
        position += size
        if "dtype" not in value:
            return blob
        if value["dtype"] not in _DTYPES:
            raise ValueError("a message has an array of an unknown type")
        return np.frombuffer(bytearray(blob), dtype=value["dtype"]).reshape(value["shape"])

    try:
        return unpack(json.loads(header))
    except (TypeError, KeyError, RecursionError, MemoryError) as error:
        raise ValueError(f"a message cannot be read ({type(error).__name__})") from None


def read(stream: BinaryIO, most: int | None = None) -> Any:
    """The next message of a blocking stream, of at most so many bytes.

    Raises EOFError at the stream's end, ValueError for a message that is too large or none at all.
    """
    header_size, body_size = _PREFIX.unpack(_read_exactly(stream, _PREFIX.size))
    if most is not None and (header_size > most // 8 or body_size > most):
        raise ValueError("a message is too large")
    header = _read_exactly(stream, header_size)
    return decode(header, _read_exactly(stream, body_size))


def _read_exactly(stream: BinaryIO, count: int) -> bytes:
    parts = []
    while count:
        part = stream.read(count)
        if not part:
            raise EOFError("the other end of the pipe closed")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
