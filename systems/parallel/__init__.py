"""The planner: what training a transformer over many GPUs takes in memory, compute and traffic, and how long."""
