"""Figures of chapters as the site has them: in fewer bytes, and with controls that need no kernel if they are few."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from warplab.files import write_whole

KEPT = Path(__file__).resolve().parent.parent / "build" / "site" / "pictures"  # since they take half a minute


def small(picture: str) -> str:
    """A drawing as PNG with 256 colours, which is a third of its bytes. Both in base64."""
    kept = KEPT / _name(picture)
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        write_whole(kept, base64.b64encode(_drawn(picture, "png", optimize=True)).decode())
    return kept.read_text(encoding="ascii")


def moving(states: Mapping[str, Any], alt: str, folder: Path, address: str) -> str:
    """HTML with the data of `course.figures.explore.STATES`; `explorer.js` shows the figure that is chosen.

    The figures are files of `folder`, which the page finds at `address`. Without scripts it shows the first one.
    """
    figures = [drawn if isinstance(drawn, list) else address + _file(drawn, folder) for drawn in states["figures"]]
    first = 0
    for _, place, labels in states["choices"]:
        first = first * len(labels) + place
    controls = "".join(_control(*choice) for choice in states["choices"])
    data = json.dumps(figures).replace("<", "\\u003c")
    return (
        f'<div class="wl-states"><div class="wl-controls" hidden>{controls}</div>'
        '<p class="wl-refusal" role="status"></p>'
        f'<img alt="{html.escape(alt)}" src="{figures[first]}">'
        f'<script type="application/json">{data}</script></div>'
    )


def _control(name: str, place: int, labels: list[str]) -> str:
    listed = html.escape(json.dumps(labels))
    return (
        f'<label>{html.escape(name)} <input type="range" min="0" max="{len(labels) - 1}" value="{place}" '
        f'data-labels="{listed}" aria-valuetext="{html.escape(labels[place])}"><output>{html.escape(labels[place])}'
        "</output></label>"
    )


def _file(picture: str, folder: Path) -> str:
    """The name of a figure's file."""
    path = folder / f"{_name(picture)}.webp"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_drawn(picture, "webp", lossless=True))
    return path.name


def _name(picture: str) -> str:
    return hashlib.sha256(picture.encode()).hexdigest()[:32]


def _drawn(picture: str, kind: str, **options: bool) -> bytes:
    with Image.open(io.BytesIO(base64.b64decode(picture))) as image:
        out = io.BytesIO()
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(out, kind, **options)
    return out.getvalue()
