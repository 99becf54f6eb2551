"""What `benchmarks.megakernel` times: the interpreter, PyTorch's step, gaps between launches."""
