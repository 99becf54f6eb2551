"""Layers of a transformer shared by the GPUs of a node, by PyTorch and NCCL."""
