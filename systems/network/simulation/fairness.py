"""Max-min fair rates by progressive filling: all flows grow together, those on a link that is full stop growing.

It is what fair queues or congestion control that is fair to flows tend to (Bertsekas and Gallager, Data Networks, 2nd
edition, section 6.5.2), and no more: packets, buffers and losses do not exist here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_EQUAL = 1e-12  # shares that differ by less are the same bottleneck


def max_min(
    capacity: NDArray[np.float64],
    links: NDArray[np.int64],
    flows: NDArray[np.int64],
    counts: NDArray[np.float64],
    number: int,
) -> NDArray[np.float64]:
    """The rate of each of `number` flows.

    Flow `flows[i]` uses link `links[i]`, and `counts[i]` flows of its kind do: one, or more where a flow stands for
    many alike. `capacity` has one entry a link. A flow on no link is not limited: its rate is infinite.
    """
    rates = np.full(number, np.inf)
    room = capacity.astype(np.float64)
    growing = np.zeros(number, bool)
    growing[flows] = True
    while growing.any():
        on = growing[flows]
        weight = np.bincount(links[on], counts[on], len(room))
        share = np.full(len(room), np.inf)
        np.divide(room, weight, out=share, where=weight > 0)
        least = share.min()
        full = share <= least * (1 + _EQUAL)
        stop = np.zeros(number, bool)
        stop[flows[on & full[links]]] = True
        rates[stop] = least
        leaves = on & stop[flows]
        room = np.maximum(room - least * np.bincount(links[leaves], counts[leaves], len(room)), 0)
        growing &= ~stop
    return rates
