"""What runs in the confined worker, on bytes that a stranger chose."""
