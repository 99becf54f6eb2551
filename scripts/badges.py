"""Gives every chapter badges that open it in Colab and Kaggle, and the cell that sets these up: `scripts.badges`.

The address of the repository comes from one place, `Repository` in `[project.urls]` of pyproject.toml. Whoever
publishes the course sets it and runs this; a second run renews what the first wrote, with an address or without.
`docs/colab.md` says more.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

from scripts import notebooks
from warplab.files import write_whole

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"
BRANCH = "main"
_GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
_COLAB = "[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]"
_KAGGLE = "[![Open in Kaggle](https://kaggle.com/static/images/open-in-kaggle.svg)]"
_FIRST = "# On Colab and Kaggle only: fetches the course and what it lacks there."
_BADGE_LINE = re.compile(re.escape(_COLAB) + r"\([^)\n]*\) " + re.escape(_KAGGLE) + r"\([^)\n]*\)\n\n")
_SETUP_CELL = re.compile(r"```\{code-cell\} ipython3\n" + re.escape(_FIRST) + r"\n.*?\n```\n\n", re.DOTALL)
_TITLE = re.compile(r"^# .*\n\n", re.MULTILINE)
_FIRST_CELL = re.compile(r"^```\{code-cell\}", re.MULTILINE)


def repository(project: dict) -> tuple[str, str] | None:
    """Owner and name of the project's repository on GitHub, or None where no address is set."""
    found = _GITHUB.fullmatch(project.get("urls", {}).get("Repository", ""))
    return (found[1], found[2]) if found else None


def setup_lines(owner: str, name: str) -> str:
    """The cell that makes a runtime of Colab or Kaggle ready; it does nothing anywhere else."""
    return f"""{_FIRST}
import os, sys

kaggle = "KAGGLE_KERNEL_RUN_TYPE" in os.environ
if kaggle or "google.colab" in sys.modules:
    course = "/kaggle/working/{name}" if kaggle else "/content/{name}"
    !test -d $course || git clone -q --depth 1 https://github.com/{owner}/{name} $course
    %cd -q $course/notebooks
    %run ../scripts/colab.py"""


def marked(text: str, chapter: str, address: tuple[str, str] | None) -> str:
    """A chapter's Markdown source with the badges and the cell of this address; without an address, with neither."""
    text = _SETUP_CELL.sub("", _BADGE_LINE.sub("", text))
    if address is None:
        return text
    owner, name = address
    file = f"{owner}/{name}/blob/{BRANCH}/notebooks/{chapter}.ipynb"
    colab = f"{_COLAB}(https://colab.research.google.com/github/{file})"
    kaggle = f"{_KAGGLE}(https://kaggle.com/kernels/welcome?src=https://github.com/{file})"
    text = _TITLE.sub(lambda title: f"{title[0]}{colab} {kaggle}\n\n", text, count=1)
    cell = f"```{{code-cell}} ipython3\n{setup_lines(*address)}\n```\n\n"
    return _FIRST_CELL.sub(lambda first: cell + first[0], text, count=1)


def main() -> int:
    """Exit code 0, or 1 where no address is set (the chapters then have no badges) or a front matter is wrong."""
    address = repository(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])
    for source in sorted((FOLDER / "source").glob("*.md")):
        write_whole(source, marked(source.read_text(encoding="utf-8"), source.stem, address))
    if code := notebooks.main(["--pair"]):
        return code
    if address is None:
        print(
            "No badges: set Repository in [project.urls] of pyproject.toml to https://github.com/OWNER/NAME.",
            file=sys.stderr,
        )
        return 1
    print(f"The badges lead to {address[0]}/{address[1]}, branch {BRANCH}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
