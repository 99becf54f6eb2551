"""Lab 14_pipeline_schedule: the order of passes of 1F1B, of interleaved 1F1B and of a zero-bubble schedule.

A record is (rank, "F", "B" or "W", micro-batch, chunk), a rank's in the order in which it does them; README.md says
what a pass needs.
"""


def one_f_one_b(ranks, micro_batches):
    """Every rank has one chunk, number 0. B is a whole backward pass."""
    return []


def interleaved(ranks, micro_batches, chunks):
    """Rank r has the layers' parts r, ranks + r, 2 ranks + r, ... as its chunks; ranks divides micro_batches."""
    return []


def zero_bubble(ranks, micro_batches):
    """Every rank has one chunk, number 0. B makes the input's gradient only, W the weights', some time after it."""
    return []
