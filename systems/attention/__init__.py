"""Attention of decoding over paged keys and values, and the gradients of attention."""
