"""PTX of another compiler: Triton kernels of our own, what they are launched with, and what a GPU made of them.

`kernels` has the Triton programs, `cases` their launches and what NumPy says of them, `record` runs them on a GPU and
keeps PTX, launch figures and outputs, `recorded` makes plans of what was kept.
"""
