"""Lab 12_collectives: schedules of a ring all-reduce, of a hierarchical all-reduce and of an all-to-all.

A record is (step, source, destination, chunk, "copy" or "reduce"); README.md says what a schedule means.
"""


def ring_all_reduce(ranks, pieces):
    """Ranks in a ring, each sending to the next; the data is ranks * pieces chunks."""
    # BEGIN SOLUTION
    # STARTER: return []
    # In step s of the first round the rank r passes on the block r - s, to which all before it have added. After
    # ranks - 1 steps the rank r has the whole sum of block r + 1, which goes round once more.
    records = []
    for step in range(2 * (ranks - 1)):
        operation = "reduce" if step < ranks - 1 else "copy"
        for rank in range(ranks):
            block = (rank - step) % ranks
            for piece in range(pieces):
                records.append((step, rank, (rank + 1) % ranks, block * pieces + piece, operation))
    return records
    # END SOLUTION


def hierarchical_all_reduce(nodes, per_node, pieces):
    """Rank r is GPU r % per_node of node r // per_node; the data is nodes * per_node * pieces chunks."""
    # BEGIN SOLUTION
    # STARTER: return []
    # A piece is nodes * per_node chunks, of which a GPU cares for one a node: it collects their sums in its node, then
    # they go round a ring of the GPUs with its number, then it hands them out. Each piece begins a step after the
    # one before, so that NVLink and the network have something to do in every step.
    records = []
    for piece in range(pieces):
        chunks = [
            [piece * nodes * per_node + node * per_node + gpu for node in range(nodes)] for gpu in range(per_node)
        ]
        records += inside(piece, nodes, per_node, chunks, "reduce")
        for hop in range(2 * (nodes - 1)):
            operation = "reduce" if hop < nodes - 1 else "copy"
            for node in range(nodes):
                for gpu in range(per_node):
                    source, destination = node * per_node + gpu, (node + 1) % nodes * per_node + gpu
                    chunk = chunks[gpu][(node - hop) % nodes]
                    records.append((piece + 1 + hop, source, destination, chunk, operation))
        records += inside(piece + 1 + 2 * (nodes - 1), nodes, per_node, chunks, "copy")
    return records
    # END SOLUTION


# BEGIN SOLUTION


def inside(step, nodes, per_node, chunks, operation):
    """In every node, each GPU gives the others their chunks to add up, or its own, which are added up, to keep."""
    records = []
    for node in range(nodes):
        for one in range(per_node):
            for other in range(per_node):
                if one != other:
                    cared_for = chunks[other if operation == "reduce" else one]
                    source, destination = node * per_node + one, node * per_node + other
                    records += [(step, source, destination, chunk, operation) for chunk in cared_for]
    return records


# END SOLUTION
def all_to_all(nodes, per_node):
    """Chunk s * ranks + d is what rank s has for rank d, where ranks is nodes * per_node."""
    # BEGIN SOLUTION
    # STARTER: return []
    # A GPU's network card is on the same rail as those with its number in other nodes. So a chunk goes, inside its
    # node, to the GPU with its destination's number, and then straight on.
    ranks, records = nodes * per_node, []
    for source in range(ranks):
        for destination in range(ranks):
            chunk = source * ranks + destination
            relay = source // per_node * per_node + destination % per_node
            if relay != source:
                records.append((0, source, relay, chunk, "copy"))
            if relay != destination:
                records.append((1, relay, destination, chunk, "copy"))
    return records
    # END SOLUTION
