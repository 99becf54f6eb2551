"""A kernel of one's own on the emulator, without a lab: `warplab.run`, and `warplab run FILE`.

What runs here is the user's own code, in a process of its own so that the user's CUDA stays as it is. It is pickled, so
nothing of the judge may come here; import-linter holds that.
"""
