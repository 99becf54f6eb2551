"""The layer's forward pass: as a chain of kernels, and in one kernel."""
