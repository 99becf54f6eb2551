"""Networks of GPUs: topologies, what collectives cost on them, NCCL's model, schedules and what executes them."""
