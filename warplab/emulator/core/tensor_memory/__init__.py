"""Blackwell's tensor memory, and the tensor core that works on it (tcgen05)."""
