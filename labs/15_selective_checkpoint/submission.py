"""Lab 15_selective_checkpoint: which operators' results a checkpoint keeps.

An operator has block, name, bytes, flops and moved; a record is (block, name). README.md says what they mean.
"""


def policy(operators):
    """Keep the fewest bytes such that no FLOP are computed again."""
    return []


def plan(operators, budget):
    """Keep at most `budget` bytes, such that the fewest FLOP are computed again."""
    return []


def plan_for_peak(operators, budget):
    """The same, but the budget is what the step's peak may be above that of a full checkpoint."""
    return []
