"""`warplab` and `python -m warplab`."""

import sys

from warplab.command import main

if __name__ == "__main__":
    sys.exit(main())
