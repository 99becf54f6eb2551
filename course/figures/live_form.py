"""The live form of a widget for a notebook's output, whichever ipywidgets made it."""

from __future__ import annotations

import base64
from typing import Any

VIEW = "application/vnd.jupyter.widget-view+json"


def live_form(widget: Any) -> dict[str, Any]:
    """The part of a MIME bundle that shows a widget where a kernel answers; empty for a widget without a view.

    Something that shows a text beside its widget joins it with this. ipywidgets 8 gives it itself; 7, which Colab has,
    displays a widget and has no other way to ask for it.
    """
    if hasattr(widget, "_repr_mimebundle_"):
        return widget._repr_mimebundle_() or {}
    if widget._view_name is None:
        return {}
    return {VIEW: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}


def formatted(shown: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Data and metadata of what a notebook would show, images in base64."""
    from IPython.core.interactiveshell import InteractiveShell

    formatter = InteractiveShell.instance().display_formatter
    assert formatter is not None  # each shell has one
    data, metadata = formatter.format(shown)
    return {k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in data.items()}, metadata


def with_still(widget: Any, still: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Data and metadata of one output: the widget where a kernel answers, else `still`, a figure for example."""
    data, metadata = formatted(still)
    return {**data, **live_form(widget)}, metadata
