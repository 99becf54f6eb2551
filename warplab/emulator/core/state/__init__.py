"""Where the machine keeps its state, how compiled code reaches it, and how it records faults."""
