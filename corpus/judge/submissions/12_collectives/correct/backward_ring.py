# expect: all: passed: rings that run the other way round, blocks that lie apart
def ring_all_reduce(ranks, pieces):
    """Chunk c is of block c % ranks."""
    return [
        (step, rank, (rank - 1) % ranks, (rank + step) % ranks + piece * ranks, "reduce" if step < ranks - 1 else "copy")
        for step in range(2 * ranks - 2)
        for rank in range(ranks)
        for piece in range(pieces)
    ]


def hierarchical_all_reduce(nodes, per_node, pieces):
    """GPU g cares for the g-th part of the chunks; rings also inside the nodes, and the rails' go backward."""
    records, share, inner = [], nodes * pieces, per_node - 1
    for rank in range(nodes * per_node):
        node, gpu = divmod(rank, per_node)
        following = node * per_node + (gpu + 1) % per_node
        before = (node - 1) % nodes * per_node + gpu
        for hop in range(inner):
            first, second = (gpu - 1 - hop) % per_node, (gpu - hop) % per_node
            for i in range(share):
                records.append((hop, rank, following, first * share + i, "reduce"))
                records.append((inner + 2 * nodes + hop, rank, following, second * share + i, "copy"))
        for hop in range(2 * nodes - 2):
            for piece in range(pieces):
                chunk = gpu * share + (node + hop) % nodes * pieces + piece
                records.append((inner + 1 + hop, rank, before, chunk, "reduce" if hop < nodes - 1 else "copy"))
    return records


def all_to_all(nodes, per_node):
    """One partner a step, in the node and then along the rail."""
    ranks, records = nodes * per_node, []
    for source in range(ranks):
        for destination in range(ranks):
            relay = source // per_node * per_node + destination % per_node
            if relay != source:
                records.append(((relay - source) % per_node, source, relay, source * ranks + destination, "copy"))
            if relay != destination:
                hop = (destination - relay) // per_node % nodes
                records.append((per_node + hop, relay, destination, source * ranks + destination, "copy"))
    return records
