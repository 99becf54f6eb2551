"""What a training step keeps for its backward pass, and the ways to keep less: a small GPT, measured tensor by tensor.

`sizes`, `formula`, `table` and `planner` are arithmetic and need nothing; the rest needs torch (`make torch`).
"""
