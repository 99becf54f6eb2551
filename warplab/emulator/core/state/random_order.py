"""Random choices of a seeded run: which warp goes next and for how long, which asynchronous operation completes."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.faults import compiled
from warplab.emulator.core.state.layout import M_PEERS, M_RANDOM, M_SEED
from warplab.emulator.core.state.raw import get, put

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@compiled
def start_random_order(m, number):
    """Give the `number`-th cluster of a launch a random sequence of its own, whichever worker runs it.

    A seed and a number are mixed by splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
    generators"). Without a seed (M_SEED 0) nothing is random.
    """
    state = np.uint64(0)
    if get(m, M_SEED):
        state = np.uint64(get(m, M_SEED)) + (np.uint64(number) + np.uint64(1)) * _GOLDEN
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state = (state ^ (state >> np.uint64(31))) | np.uint64(1)
    put(m, M_RANDOM, np.int64(state))


@compiled
def is_random(m):
    """Is this a seeded run?"""
    return get(get(m, M_PEERS), M_RANDOM) != 0


@compiled
def random_below(m, n):
    """A random whole number from 0 to n - 1; 0 in a run without a seed. All blocks of a cluster share one sequence.

    The generator is xorshift64 (Marsaglia, "Xorshift RNGs").
    """
    home = get(m, M_PEERS)
    state = np.uint64(get(home, M_RANDOM))
    if state == np.uint64(0):
        return np.int64(0)
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    put(home, M_RANDOM, np.int64(state))
    return np.int64((state >> np.uint64(16)) % np.uint64(n))
