"""Lab 12_collectives: schedules of a ring all-reduce, of a hierarchical all-reduce and of an all-to-all.

A record is (step, source, destination, chunk, "copy" or "reduce"); README.md says what a schedule means.
"""


def ring_all_reduce(ranks, pieces):
    """Ranks in a ring, each sending to the next; the data is ranks * pieces chunks."""
    return []


def hierarchical_all_reduce(nodes, per_node, pieces):
    """Rank r is GPU r % per_node of node r // per_node; the data is nodes * per_node * pieces chunks."""
    return []


def all_to_all(nodes, per_node):
    """Chunk s * ranks + d is what rank s has for rank d, where ranks is nodes * per_node."""
    return []
