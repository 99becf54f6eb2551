"""What the notebooks import: lessons, records of measurements, and cells that hold kernels."""
