"""How far an instruction's accesses are strong, and what they order, as its words say."""

from __future__ import annotations

from collections.abc import Sequence

from warplab.emulator.core.state.layout import ACQUIRE_BIT, RELEASE_BIT
from warplab.emulator.core.state.races_layout import SCOPE_BLOCK, SCOPE_CLUSTER, SCOPE_GPU


def scope_of(words: Sequence[str]) -> int:
    """The scope that words of an instruction name; the GPU if they name none."""
    return SCOPE_BLOCK if "cta" in words else SCOPE_CLUSTER if "cluster" in words else SCOPE_GPU


def strength_of(words: Sequence[str]) -> int:
    """Scope and order of a strong access: volatile ones reach as far as relaxed ones of the whole system."""
    scope = SCOPE_GPU if "volatile" in words or "mmio" in words else scope_of(words)
    acquires = ACQUIRE_BIT if "acquire" in words or "acq_rel" in words else 0
    return scope | acquires | (RELEASE_BIT if "release" in words or "acq_rel" in words else 0)


def orders(words: Sequence[str]) -> bool:
    """Does an access release or acquire by itself?"""
    return strength_of(words) & (ACQUIRE_BIT | RELEASE_BIT) != 0
