"""Tensor cores: fragments, products and the queue of wgmma."""
