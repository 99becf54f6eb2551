"""The side panel of JupyterLab: what its page asks of the server. `page` is the page's part, as plain
JavaScript, and `labextensions` what JupyterLab loads first. Without this package, or in another front end, chapters and
labs work as before.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    """Called by Jupyter's server when it starts."""
    from autograder.panel.handlers import Panel

    return [{"module": "autograder.panel", "app": Panel}]
