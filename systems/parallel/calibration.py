"""The constants that are not on a datasheet, and where each comes from.

`products` is fitted, one number a generation, to the runs that data/runs.toml marks `fit`; the others are taken from
what is published and are the same everywhere. docs/parallelism.md has the errors, also of a fit without each run.
"""

from __future__ import annotations

# Share of the dense peak that matrix products reach on their own; tests/systems/parallel/test_runs.py fits it again.
PRODUCTS = {"ampere": 0.70, "hopper": 0.50}

# Share of a port's rate that a large collective reaches: 370 of 450 GB/s on eight H100s (How to Scale Your Model,
# chapter 12, Empirical measurements).
LINKS = 0.82

# Share of the peak that attention's products reach in FlashAttention-2: 35% on an H100 (Shah et al.,
# FlashAttention-3, 2024, abstract), 50 to 73% on an A100 (Dao, FlashAttention-2, 2023, abstract: the middle).
ATTENTION = {"ampere": 0.61, "hopper": 0.35}

# How often what is stored of a layer crosses HBM in element-wise work and norms: written forward, read backward, and
# its gradient written. An estimate, not fitted.
PASSES = 3

# Bytes an optimizer step moves for each parameter that a GPU updates: Adam reads gradient, master weight and two
# moments and writes the last three, 4 bytes each, and a 16-bit weight.
UPDATE = 30
