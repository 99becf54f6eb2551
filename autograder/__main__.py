"""`python -m autograder` is the `autograder` command.

Python puts the folder that it is started in before everything else it imports from. That folder may be full of
downloads, one of them named like a module: unless it is where this package lies, it is taken off first.
"""

import os
import sys

HERE = os.path.realpath(os.getcwd())
if os.path.realpath(sys.path[0]) == HERE != os.path.dirname(os.path.dirname(os.path.realpath(__file__))):
    del sys.path[0]

from autograder.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
