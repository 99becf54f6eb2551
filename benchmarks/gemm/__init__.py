"""Matrix products on tensor cores, written with warplab.ptx: how near Numba comes to the vendor's library."""
