"""How Sphinx builds the site that `website.stage` lays out. Nothing on a page comes from another address.

Sphinx and not MyST's own builder, since that one fetches its theme from the network whenever it starts from nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from website.stage import EXTRA, ROOT, repository

project = "Warplab"
author = "the authors of Warplab"
html_title = "Warplab"
extensions = ["myst_nb", "sphinx-mathjax-offline"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # `make notebooks` runs chapters before
nb_code_prompt_show = "Show the {type}"
nb_code_prompt_hide = "Hide the {type}"
nb_merge_streams = True
suppress_warnings = ["mystnb.unknown_mime_type"]
html_theme = "sphinx_book_theme"
html_static_path = [str(ROOT / "website" / "static")]
html_extra_path = [str(EXTRA)] if EXTRA.exists() else []
html_css_files = ["site.css"]
html_js_files = [("explorer.js", {"defer": "defer"})]
html_theme_options = {
    "repository_url": repository(),
    "use_repository_button": True,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "navbar_persistent": [],  # one search field, in the side bar
}
html_copy_source = False
html_favicon = str(ROOT / "website" / "static" / "favicon.svg")
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system
html_show_copyright = False
exclude_patterns = ["docs/README.md"]
