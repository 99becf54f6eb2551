# expect: safety: passed: rank 0 adds everything up, and tells it along a chain with steps of its own
def through_one_rank(ranks, chunks):
    """A chain back to every rank: who takes a chunk in a step of its own number does so before it passes it on."""
    records = [(0, rank, 0, chunk, "reduce") for rank in range(1, ranks) for chunk in range(chunks)]
    for rank in range(ranks - 1):
        for chunk in range(chunks):
            records.append((2 + 2 * rank, rank, rank + 1, chunk, "copy", 3 + rank))
    return records


def ring_all_reduce(ranks, pieces):
    return through_one_rank(ranks, ranks * pieces)


def hierarchical_all_reduce(nodes, per_node, pieces):
    return through_one_rank(nodes * per_node, nodes * per_node * pieces)


def all_to_all(nodes, per_node):
    ranks = nodes * per_node
    return [(0, s, d, s * ranks + d, "copy", None) for s in range(ranks) for d in range(ranks) if s != d]
