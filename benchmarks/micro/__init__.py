"""Small kernels that measure one thing each on a Hopper GPU, and what is known about that thing."""
