"""A kernel of one's own on the emulator, without a lab: `warplab.run`, and `python -m warplab run FILE`.

What runs here is the user's own code, in a process of its own so that the user's CUDA stays as it is. It is pickled, so
nothing of the judge may come here; import-linter holds that.
"""

from warplab.own_kernels.result import Result
from warplab.own_kernels.run import OwnCodeError, run, run_file

__all__ = ["OwnCodeError", "Result", "run", "run_file"]
