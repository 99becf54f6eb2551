"""What lanes and warps do together: shuffles, votes, barriers, splits of a divergent warp, clusters."""
