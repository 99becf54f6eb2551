"""What the part for wgmma is compiled from: the function that products.py calls."""

from __future__ import annotations

import numpy as np

from warplab.emulator.core.state.layout import OP_WGMMA, OP_WGMMA_GROUP, OP_WGMMA_REGISTER
from warplab.emulator.core.tensor.products import START
from warplab.emulator.core.tensor.warpgroups import (
    clear_warpgroups,
    group_products,
    reach_product,
    release_warpgroups,
)
from warplab.emulator.core.tensor.wgmma_queue import access_register


def run_products(m, what, warp, frame, constants, record, pc, mask):
    """One instruction of a warp, or START, STUCK; called through its address."""
    if what == OP_WGMMA:
        reach_product(m, warp, frame, constants, record, pc, np.uint32(mask))
    elif what == OP_WGMMA_GROUP:
        group_products(m, warp, record)
    elif what == OP_WGMMA_REGISTER:
        access_register(m, warp, record, pc, np.uint32(mask))
    elif what == START:
        clear_warpgroups(m)
    else:
        release_warpgroups(m)
