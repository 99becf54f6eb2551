# expect: correctness: out of bounds: a rank sends its own block to itself
def ring_all_reduce(ranks, pieces):
    return [
        (step, rank, (rank + 1) % ranks, (rank - step) % ranks * pieces + piece, "reduce" if step < ranks - 1 else "copy")
        for step in range(2 * ranks - 2)
        for rank in range(ranks)
        for piece in range(pieces)
    ]


def hierarchical_all_reduce(nodes, per_node, pieces):
    """Scatter in the node, a ring a rail, gather in the node: chunk c belongs to the GPUs c % per_node."""
    records, last = [], 2 * nodes - 1
    for rank in range(nodes * per_node):
        node, gpu = divmod(rank, per_node)
        for block in range(nodes * pieces):
            for other in (other for other in range(per_node) if other != gpu):
                there = node * per_node + other
                records.append((0, rank, there, block * per_node + other, "reduce"))
                records.append((last, rank, there, block * per_node + gpu, "copy"))
        for hop in range(last - 1):
            for piece in range(pieces):
                chunk = ((node - hop) % nodes + piece * nodes) * per_node + gpu
                there = (rank + per_node) % (nodes * per_node)
                records.append((hop + 1, rank, there, chunk, "reduce" if hop < nodes - 1 else "copy"))
    return records


def all_to_all(nodes, per_node):
    ranks, records = nodes * per_node, []
    for source in range(ranks):
        for destination in range(ranks):
            relay = source // per_node * per_node + destination % per_node
            for step, (one, other) in enumerate(((source, relay), (relay, destination))):
                if one != other or step == 0:
                    records.append((step, one, other, source * ranks + destination, "copy"))
    return records
