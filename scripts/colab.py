"""Makes a runtime of Colab or Kaggle ready for the course: the first cell of a chapter runs it there, with Python's own
modules. Kaggle's image is made from Colab's.

`constraints-colab.txt` has the versions that the course was tried with there. What Colab lacks is installed at these
versions; where Colab has others by now, each is named, for that is what to look at first if something fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PINS = CHECKOUT / "constraints-colab.txt"
PYTHONS = ((3, 11), (3, 13))
_ADDED = "# Added."  # begins the comment from which on Colab has other versions than the course needs


def pins(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The versions of what Colab has and of what is added to it, by name."""
    colabs, _, added = text.partition(_ADDED)
    return _versions(colabs), _versions(added)


def _versions(text: str) -> dict[str, str]:
    lines = (line.split("==") for line in text.splitlines() if "==" in line and not line.startswith("#"))
    return {name: version for name, version in lines}


def changes(expected: Mapping[str, str], python: tuple[int, int] = sys.version_info[:2]) -> list[str]:
    """A sentence for each way in which this Python is not the one that the course was tried with."""
    oldest, newest = PYTHONS
    said = []
    if not oldest <= python <= newest:
        said.append(f"Python is {python[0]}.{python[1]} here, and the course needs 3.11 to 3.13.")
    for name, version in expected.items():
        found = _installed(name)
        if not found:
            said.append(f"{name} is not installed here any more; the course was tried with {version}.")
        elif found != version:
            said.append(f"{name} is {found} here; the course was tried with {version}.")
    return said


def _installed(name: str) -> str:
    try:
        return metadata.version(name).split("+")[0]
    except metadata.PackageNotFoundError:
        return ""


def main() -> int:
    """Exit code 0, or 1 if a package cannot be installed."""
    colabs, added = pins(PINS.read_text(encoding="utf-8"))
    changed = changes(colabs)
    wanted = [f"{name}=={version}" for name, version in added.items() if _installed(name) != version]
    wanted += [f"{name}=={version}" for name, version in colabs.items() if not _installed(name)]
    if wanted:
        # Without their dependencies: pip would exchange what other packages of Colab need.
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", *wanted]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(
                f"colab: {' '.join(wanted)} did not install: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr
            )
            return 1
    for sentence in changed:
        print(f"colab: {sentence}")
    if changed:
        print("colab: Colab has changed since the course was tried there. What fails is most likely of these packages.")
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    os.environ["PYTHONPATH"] = str(CHECKOUT)  # of the processes that compile, emulate and grade
    print(f"Ready: {', '.join(wanted) or 'nothing'} installed. The next cells are the chapter's.")
    return 0


if __name__ == "__main__" and (code := main()):
    raise SystemExit(code)
