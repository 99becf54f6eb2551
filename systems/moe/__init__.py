"""Kernels of a mixture-of-experts layer: forward, backward, and the gradients in FP8."""
