"""Times the all-reduces of systems/peer beside NCCL, and the row-parallel layer beside PyTorch."""
