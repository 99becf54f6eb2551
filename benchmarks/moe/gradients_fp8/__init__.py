"""Gradients of experts' weights in FP8: a product whose depth is an expert's tokens, with scales for blocks of them."""
