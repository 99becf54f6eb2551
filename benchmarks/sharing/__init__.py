"""What another tenant of a GPU costs a kernel, and what is left behind for it: time slices, streams and MPS."""
