"""Rung 2 of lab 12: a ring, and a hierarchy whose stages follow each other: one of two wires is idle at any time."""


def ring_all_reduce(ranks, pieces):
    return [
        (
            step,
            rank,
            (rank + 1) % ranks,
            (rank - step) % ranks * pieces + piece,
            "reduce" if step < ranks - 1 else "copy",
        )
        for step in range(2 * (ranks - 1))
        for rank in range(ranks)
        for piece in range(pieces)
    ]


def hierarchical_all_reduce(nodes, per_node, pieces):
    """Chunk c is cared for by the GPUs c % per_node."""
    blocks = nodes * pieces
    records = []
    for node in range(nodes):
        for one in range(per_node):
            for other in range(per_node):
                if one != other:
                    for block in range(blocks):
                        pair = node * per_node + one, node * per_node + other
                        records.append((0, *pair, block * per_node + other, "reduce"))
                        records.append((2 * nodes - 1, *pair, block * per_node + one, "copy"))
            for hop in range(2 * (nodes - 1)):
                for piece in range(pieces):
                    block = (node - hop) % nodes + piece * nodes
                    there = (node + 1) % nodes * per_node + one
                    operation = "reduce" if hop < nodes - 1 else "copy"
                    records.append((1 + hop, node * per_node + one, there, block * per_node + one, operation))
    return records


def all_to_all(nodes, per_node):
    """Each chunk straight to its rank, all at once."""
    ranks = nodes * per_node
    return [(0, s, d, s * ranks + d, "copy") for s in range(ranks) for d in range(ranks) if s != d]
