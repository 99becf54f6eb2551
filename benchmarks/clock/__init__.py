"""The model of time beside the clock, on kernels to which nothing is fitted."""
