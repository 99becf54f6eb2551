"""Grades the references for the site (`python -m website.reports`), but only if files behind the grades changed."""

from __future__ import annotations

import subprocess
import sys

from scripts.notebooks import digest_of
from warplab.files import write_whole
from website.stage import REPORTS, ROOT

_OF = REPORTS.with_name("site.digest")  # of what the reports were made from
_BEHIND = ("autograder", "labs", "solutions", "systems", "warplab")


def main() -> int:
    """The exit code of `autograder reference`, 0 where its reports are kept."""
    digest = digest_of(_BEHIND)
    if REPORTS.exists() and _OF.exists() and _OF.read_text(encoding="utf-8") == digest:
        return 0
    _OF.unlink(missing_ok=True)  # a run without full marks writes the page too
    code = subprocess.run([sys.executable, "-m", "autograder", "reference"], cwd=ROOT, check=False).returncode
    if code == 0:
        write_whole(_OF, digest)
    return code


if __name__ == "__main__":
    sys.exit(main())
