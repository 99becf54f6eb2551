"""Models beside the interpreter: the caches, and the estimate of time."""
