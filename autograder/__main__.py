"""`python -m autograder` is the `autograder` command.

Python puts the folder that it is started in before everything else it imports from. That folder may be full of
downloads, one of them named like a module: unless it is where this package lies, it is taken off first.
"""

import os
import signal
import sys
import threading

_GRADER = ("jinja2", "matplotlib", "pygments", "rich")  # of the extra `grader`
HERE = os.path.realpath(os.getcwd())
if os.path.realpath(sys.path[0]) == HERE != os.path.dirname(os.path.dirname(os.path.realpath(__file__))):
    del sys.path[0]


def main() -> int:
    """Run the command and return its exit code."""
    try:
        code = _prepared()
    except KeyboardInterrupt:  # while it is imported, or gets ready
        grades = sys.argv[1:2] in (["check"], ["grade"], ["class"], ["reference"])
        print(f"autograder: stopped by you{', nothing was graded' if grades else ''}.", file=sys.stderr)
        code = 3
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not change the exit code
    return code


def _prepared() -> int:
    """The command. What grades takes a second to get ready: that begins before the command is imported, which takes as
    long."""
    if sys.argv[1:2] not in (["check"], ["grade"]):
        return _command()
    from warplab.plan.capture.escape_probe import strongest

    threading.Thread(target=strongest).start()  # it tries to break out of a sandbox
    from autograder.judge import confined_worker, started_ahead

    confined_worker.start_ahead(gpu=not any(word.endswith("emulator") for word in sys.argv))
    try:
        return _command()
    finally:
        started_ahead.close_rest()


def _command() -> int:
    try:
        from autograder import cli
    except ModuleNotFoundError as missing:
        if missing.name not in _GRADER:
            raise
        print(f"autograder: the package {missing.name} is missing: pip install 'warplab[grader,cuda]'", file=sys.stderr)
        return 2
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
