"""A widget's live form, as ipywidgets 8 gives it and as 7, which Colab has, would display it."""

from __future__ import annotations

from types import SimpleNamespace

import ipywidgets
import pytest

from course.figures.live_form import VIEW, live_form


def test_the_installed_widgets_have_a_live_form() -> None:
    slider = ipywidgets.IntSlider()
    assert live_form(slider)[VIEW] == {"version_major": 2, "version_minor": 0, "model_id": slider.model_id}


@pytest.mark.parametrize("view", ["VBoxView", None])
def test_a_widget_that_only_displays_itself(view: str | None) -> None:
    """What ipywidgets 7.7 sends from `Widget._ipython_display_`, its only way out: the view, if it has one."""
    seven = SimpleNamespace(_view_name=view, model_id="a1", _ipython_display_=lambda: None)
    expected = {"application/vnd.jupyter.widget-view+json": {"version_major": 2, "version_minor": 0, "model_id": "a1"}}
    assert live_form(seven) == (expected if view else {})
