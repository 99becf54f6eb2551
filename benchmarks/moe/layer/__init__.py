"""A mixture-of-experts layer, measured: as a chain of the labs' kernels, and in one kernel."""
