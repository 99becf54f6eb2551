"""Builds the site: `python -m website` writes build/site/html, anew only what has changed."""

from __future__ import annotations

import sys

from sphinx.cmd.build import build_main

from website import stage


def main() -> int:
    """Sphinx's exit code: 1 also for a link that leads nowhere."""
    source = stage.SITE / "source"
    stage.lay_out(source)
    folders = [str(source), str(source.with_name("html"))]
    return build_main(["-q", "-W", "--keep-going", "-c", str(stage.ROOT / "website"), *folders])


if __name__ == "__main__":
    sys.exit(main())
