# expect: traffic: over budget: rings over all GPUs carry twice what has to leave a node
OPERATIONS = ("copy", "reduce")


def ring_all_reduce(ranks, pieces):
    return [
        (step, rank, (rank + 1) % ranks, (rank - step) % ranks * pieces + piece, "reduce" if step < ranks - 1 else "copy")
        for step in range(2 * ranks - 2)
        for rank in range(ranks)
        for piece in range(pieces)
    ]


def hierarchical_all_reduce(nodes, per_node, pieces):
    """Ring g enters each node at GPU g and passes all of them; it has the chunks c % per_node == g."""
    ranks, records = nodes * per_node, []
    for g in range(per_node):
        order = [node * per_node + (g + hop) % per_node for node in range(nodes) for hop in range(per_node)]
        for step in range(2 * ranks - 2):
            for place in range(ranks):
                for piece in range(pieces):
                    chunk = ((place - step) % ranks + piece * ranks) % (nodes * per_node * pieces)
                    if chunk % per_node == g:
                        records.append((step, order[place], order[(place + 1) % ranks], chunk, OPERATIONS[step < ranks - 1]))
    return records


def all_to_all(nodes, per_node):
    ranks, records = nodes * per_node, []
    for source in range(ranks):
        for destination in range(ranks):
            relay = source // per_node * per_node + destination % per_node
            for step, (one, other) in enumerate(((source, relay), (relay, destination))):
                if one != other:
                    records.append((step, one, other, source * ranks + destination, "copy"))
    return records
