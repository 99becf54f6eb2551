"""A verifier for `autograder verify` that asks no model: it looks for a guard. It is an example, and easily fooled.

`autograder verify submission.py --with "python -m autograder.example_verifier"`
"""

from __future__ import annotations

import re
import sys


def verdict(prompt: str) -> str:
    """The verdict and its reason on a prompt: "wrong" if the submission compares nothing with a size."""
    kernel = prompt.partition("<submission>")[2].partition("</submission>")[0]
    if re.search(r"\bif\b.*<|\bwhile\b.*<|\brange\(", kernel):
        return "right\nIndices are compared with a size, or a loop ends at one."
    return "wrong\nNo index is compared with a size, so threads behind the end read and write out of bounds."


if __name__ == "__main__":
    print(verdict(sys.stdin.read()))
