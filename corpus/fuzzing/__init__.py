"""Hostile plans and PTX for the emulator: `benchmarks.fuzz` runs them.

`kernels` writes kernels that misuse memory on purpose, `mutate` damages texts and files, `cases` makes a case of each,
`guard` surrounds the emulator's memory by pages that nobody may touch, `child` runs cases in a process of its own.
"""
