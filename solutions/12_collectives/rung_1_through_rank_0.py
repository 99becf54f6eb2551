"""Rung 1 of lab 12: everything goes to rank 0 and back. Right, and as slow as one port is."""


def through_rank_0(ranks, chunks):
    records = []
    for rank in range(1, ranks):
        for chunk in range(chunks):
            records.append((0, rank, 0, chunk, "reduce"))
            records.append((1, 0, rank, chunk, "copy"))
    return records


def ring_all_reduce(ranks, pieces):
    return through_rank_0(ranks, ranks * pieces)


def hierarchical_all_reduce(nodes, per_node, pieces):
    return through_rank_0(nodes * per_node, nodes * per_node * pieces)


def all_to_all(nodes, per_node):
    """Each chunk straight to its rank, one partner a step."""
    ranks = nodes * per_node
    return [
        (hop - 1, rank, (rank + hop) % ranks, rank * ranks + (rank + hop) % ranks, "copy")
        for hop in range(1, ranks)
        for rank in range(ranks)
    ]
