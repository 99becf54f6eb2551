"""Gradients of the experts' weights in FP8: a product whose depth is an expert's tokens."""
