"""The blocks that an operation of the tensor core works on: its own, or the two of a pair (.cta_group::2).

The ranks of a pair in its cluster differ in the last bit. The even block comes first. (PTX ISA, "CTA Pair".)
"""

from __future__ import annotations

from warplab.emulator.core.memory.cluster_memory import peer
from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import M_CLUSTER, M_RANK
from warplab.emulator.core.state.raw import get
from warplab.emulator.core.state.tensor_layout import FORM_PAIR


@compiled
def blocks_of(form):
    """How many blocks an operation works on."""
    return 2 if form & FORM_PAIR else 1


@compiled
def block_of(m, form, index):
    """The index-th of them."""
    return peer(m, (get(m, M_RANK) & ~1) + index) if form & FORM_PAIR else m


@compiled
def has_pair(m):
    """Is the block one of a pair?"""
    return (get(m, M_RANK) | 1) < get(m, M_CLUSTER)
