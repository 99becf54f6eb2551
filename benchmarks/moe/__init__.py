"""Mixtures of experts: the labs' kernels beside what a user of PyTorch would call."""
