"""What a neighbour on a GPU costs a kernel, and what it can read, in time slices, streams and MPS."""
