"""Times the layers of systems/sharded beside what the planner expects."""
