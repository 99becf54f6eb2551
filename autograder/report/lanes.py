"""The picture of one request of a warp: its lanes, and the sectors or banks that serve them, as SVG.

It takes the page's text colour, so it reads on light and dark pages, and loads nothing.
"""

from __future__ import annotations

from markupsafe import Markup, escape

from autograder.records.outcome import LaneRequest
from warplab.hardware.requests import BANKS, SECTOR, BankAccess, SectorAccess, banks_of, sectors_of

_WIDE, _CELL = 640, 20  # of the picture and of a lane, in its own units
_COLOURS = ("#3b8bd0", "#d98e00", "#17a077", "#c2649a")  # told apart on white and on black
_MOST_ROWS = 8  # wavefronts that are drawn
_TEXT = '<text x="{}" y="{}" text-anchor="middle" font-size="10" fill="currentColor">{}</text>'
_BOX = '<rect x="{:.1f}" y="{}" width="{:.1f}" height="20" fill="{}" stroke="currentColor" stroke-opacity=".35"/>'


def lanes_picture(request: LaneRequest | None) -> Markup:
    """A figure with a caption; empty for no request, or one that no warp can make, of a worker taken over."""
    if request is None:
        return Markup()
    try:
        if request.space == "shared":
            drawn, words = _banks(banks_of(request.addresses, request.size, write=request.verb == "store"))
        else:
            drawn, words = _sectors(sectors_of(request.addresses, request.size))
    except ValueError:
        return Markup()
    if not words:
        return Markup()
    caption = f"Line {request.line}, one {request.verb} of a warp ({request.array}): {words}"
    picture = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    height = 30 + 22 * (drawn.count("<g>") or 4)
    return Markup('<figure class="lanes"><div class="wide">{}</div><figcaption>{}</figcaption></figure>').format(
        picture.format(_WIDE, height, caption, drawn), caption
    )


def _sectors(access: SectorAccess) -> tuple[Markup, str]:
    """Lanes above, a box for each sector below, and a line from each lane to its sector."""
    count = len(access.sectors)
    if not count:
        return Markup(), ""
    width = min(_WIDE / count, 8 * _CELL)
    left = (_WIDE - width * count) / 2
    made = Markup()
    for lane, touched in enumerate(access.lanes):
        colour = _COLOURS[access.sectors.index(touched[0]) % 4] if touched else "none"
        made += _box(lane * _CELL, 0, _CELL, colour, str(lane))
        for sector in touched:
            to = left + width * (access.sectors.index(sector) + 0.5)
            made += Markup('<line x1="{}" y1="20" x2="{:.1f}" y2="82" stroke="{}"/>').format(
                lane * _CELL + _CELL / 2, to, colour
            )
    for number in range(count):
        label = str(number + 1) if width > 14 else ""
        made += _box(left + number * width, 82, width, _COLOURS[number % 4], label)
    asked, moved = access.bytes_asked, access.bytes_moved
    return made, f"lanes 0 to 31 above, {count} sectors of {SECTOR} bytes below, {asked} of the {moved} bytes are used."


def _banks(access: BankAccess) -> tuple[Markup, str]:
    """A row for each wavefront, a column for each bank; a filled cell names the lane that it serves."""
    made = Markup()
    for row, wavefront in enumerate(access.wavefronts[:_MOST_ROWS]):
        made += Markup("<g>")
        for bank in range(BANKS):
            _, lanes = wavefront.served.get(bank, (0, ()))
            label = str(lanes[0]) + ("+" if len(lanes) > 1 else "") if lanes else ""
            made += _box(bank * _CELL, 22 * row + 18, _CELL, _COLOURS[row % 4] if lanes else "none", label)
        made += Markup("</g>")
    for bank in range(0, BANKS, 4):
        made += Markup(_TEXT).format(bank * _CELL + _CELL / 2, 11, f"{bank}")
    count = len(access.wavefronts)
    drawn = f", the first {_MOST_ROWS} of them drawn" if count > _MOST_ROWS else ""
    return made, f"{count} wavefronts, a row each{drawn}; a column is a bank, and a number the lane that it serves."


def _box(x: float, y: float, width: float, colour: str, label: str) -> Markup:
    box = Markup(_BOX)
    made = box.format(x, y, width, colour)
    return made + Markup(_TEXT).format(f"{x + width / 2:.1f}", y + 14, escape(label)) if label else made
