"""`python -m warplab`."""

import sys

from warplab.own_kernels.command import main

if __name__ == "__main__":
    sys.exit(main())
