"""Numbers that only a secret seed tells."""

from __future__ import annotations

import hashlib
import secrets


def secret_seed() -> int:
    """A seed that nobody can guess; it must not appear in any report."""
    return secrets.randbits(63)


def seeded(seed: int, *names: object) -> int:
    """A number of 64 bits for one purpose, which the names say."""
    text = "/".join(str(name) for name in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def grade_seed(class_seed: int, student: str, content: bytes) -> int:
    """The seed of one student's grade in a class, of 63 bits: the same for the same content, unrelated for any other.

    Reports say which cases fail and where. A seed that stayed the same would let one attempt learn the inputs of the
    next, or of a friend's.
    """
    return seeded(class_seed, "grade", student, hashlib.sha256(content).hexdigest()) >> 1


def uniform(seed: int, *names: object) -> float:
    """A number in [0, 1) for one purpose."""
    return seeded(seed, *names) / 2**64
