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
    """The message of a frame's two parts; arrays come back writable."""
    position = 0

    def unpack(value: Any) -> Any:
        nonlocal position
        if isinstance(value, list):
            return [unpack(item) for item in value]
        if not isinstance(value, dict):
            return value
        if _REFERENCE not in value:
            return {key: unpack(item) for key, item in value.items()}
        blob = body[position : position + value[_REFERENCE]]
        position += value[_REFERENCE]
        if "dtype" not in value:
            return blob
        return np.frombuffer(bytearray(blob), dtype=value["dtype"]).reshape(value["shape"])

    return unpack(json.loads(header))


def read(stream: BinaryIO) -> Any:
    """The next message of a blocking stream. Raises EOFError at its end."""
    header_size, body_size = _PREFIX.unpack(_read_exactly(stream, _PREFIX.size))
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
