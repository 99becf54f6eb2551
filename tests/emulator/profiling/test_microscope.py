"""The microscope's page holds what the profile says, keeps to its size, and needs nothing from elsewhere."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.browser import chromium, faint, picture, sideways
from warplab import emulate
from warplab.command import main
from warplab.emulator.profiling import Profile, microscope
from warplab.emulator.profiling.accesses import accesses_of
from warplab.emulator.profiling.timeline import IssueKind, Reason

pytestmark = pytest.mark.processes  # ptxas

# out[t] = tile[33 * t mod 64] for 64 threads, the odd lanes only: a barrier, two spaces, lanes that are off.
PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry turn(.param .u64 out)
{
    .reg .u32 %r<6>; .reg .u64 %rd<4>; .reg .pred %p;
    .shared .align 4 .b32 tile[64];
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, tile;
    shl.b32 %r2, %r0, 2;
    add.u32 %r2, %r2, %r1;
    st.shared.u32 [%r2], %r0;
    bar.sync 0;
    mul.lo.u32 %r3, %r0, 33;
    and.b32 %r3, %r3, 63;
    shl.b32 %r3, %r3, 2;
    add.u32 %r3, %r3, %r1;
    ld.shared.u32 %r4, [%r3];
    and.b32 %r5, %r0, 1;
    setp.eq.u32 %p, %r5, 1;
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd1, %rd1, %rd0;
    @%p st.global.u32 [%rd1], %r4;
    ret;
}
"""


def profiled() -> Profile:
    return emulate(PTX, grid=1, block=64, args=(np.zeros(64, np.uint32),)).profile()


def unpacked(page: str) -> dict[str, Any]:
    found = re.search(r'<script id="data" type="text/plain">([^<]*)<', page)
    assert found

    def whole(values: dict[str, Any]) -> Any:
        return np.frombuffer(base64.b64decode(values["int32"]), "<i4") if "int32" in values else values

    return json.loads(zlib.decompress(base64.b64decode(found[1])), object_hook=whole)


@pytest.mark.parametrize("clock", [0, 1])
def test_it_has_every_issue_and_wait(clock: int) -> None:
    profile = profiled()
    chart, data = profile.timeline(modelled=bool(clock)), unpacked(profile.microscope().text)
    held = data["clocks"][clock]
    rows = held["issues"].reshape(-1, 7)
    seen = [
        (warp, time, data["ptx"][pc][1], mask & 0xFFFFFFFF, active & 0xFFFFFFFF, tuple(IssueKind)[kind])
        for warp, time, pc, mask, active, _, kind in rows.tolist()
    ]
    assert seen == [(i.warp, i.time, i.text, i.mask, i.active, i.kind) for w in (0, 1) for i in chart.of_warp(w)]
    waits = {(warp, a, b, tuple(Reason)[reason]) for warp, a, b, reason, _ in held["stalls"].reshape(-1, 5).tolist()}
    assert waits == {(s.warp, s.start, s.end, s.reason) for s in chart.stalls} != set()
    assert held["end"] == chart.end


def test_it_has_the_place_of_every_lane() -> None:
    profile = profiled()
    data = unpacked(profile.microscope().text)
    accesses = list(accesses_of(profile.trace, profile.resolver, None, None))
    rows, lanes = data["accesses"].reshape(-1, 6), data["lanes"].reshape(-1, 32)
    assert len(rows) == len(lanes) == len(accesses) == 6
    for row, steps, access in zip(rows.tolist(), lanes.tolist(), accesses, strict=True):
        assert (data["spaces"][row[0]], data["verbs"][row[1]], data["names"][row[2]]) == (
            access.space, access.verb, access.arrays,
        )  # fmt: skip
        assert row[3:] == [access.size, access.cost, access.ideal]
        places, last = [], 0
        for step in steps:
            places.append(None if step == -(2**31) else last + step)
            last = last if step == -(2**31) else last + step
        assert tuple(places) == access.addresses
    of_issues = data["clocks"][1]["issues"].reshape(-1, 7)[:, 5]
    assert sorted(of_issues[of_issues >= 0].tolist()) == list(range(6))


def test_a_page_that_would_be_too_large_loses_lanes_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = profiled()
    whole = profile.microscope().text
    monkeypatch.setattr(microscope, "MOST_BYTES", len(whole) - 20)
    small = unpacked(profile.microscope().text)
    assert 0 < len(small["lanes"]) < 6 * 32
    assert len(small["accesses"]) == 6 * 6 and len(small["clocks"][0]["issues"]) > 0


def test_a_page_that_is_still_too_large_has_the_beginning_of_every_warp(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = profiled()
    whole = unpacked(profile.microscope().text)
    monkeypatch.setattr(microscope, "_page", lambda profile, data: "x" * (1000 + len(data["clocks"][1]["issues"])))
    kept: list[dict[str, Any]] = []
    make = microscope._data
    monkeypatch.setattr(microscope, "_data", lambda *given: (kept.append(make(*given)), kept[-1])[1])
    total = len(whole["clocks"][1]["issues"])
    monkeypatch.setattr(microscope, "MOST_BYTES", 1000 + total // 2)
    profile.microscope()
    small = kept[-1]
    assert small["truncated"] == (total - len(small["clocks"][1]["issues"])) // 7 > 0
    for clock in (0, 1):
        rows, all_rows = (each["clocks"][clock]["issues"].reshape(-1, 7) for each in (small, whole))
        assert set(rows[:, 0]) == {0, 1}
        for warp in (0, 1):
            mine = rows[rows[:, 0] == warp]
            assert (mine[:, 1:5] == all_rows[all_rows[:, 0] == warp][: len(mine), 1:5]).all()


def test_nothing_comes_from_elsewhere_and_names_are_text() -> None:
    page = profiled().microscope()
    assert not re.search(r"(src|href)=|https?:|import\(|url\(", page.text)
    assert page._repr_html_().startswith("<iframe") and "<script" not in page._repr_html_()


def test_a_reader_scrubs_and_steps_through_it(tmp_path: Path) -> None:
    """With the pointer and the keyboard, in both themes; its texts have contrast, and nothing fails."""
    profiled().microscope().save(tmp_path / "page.html")
    with chromium() as browser:
        for theme in ("light", "dark"):
            page = browser.new_page(viewport={"width": 1200, "height": 800}, color_scheme=theme)
            errors: list[str] = []
            page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
            page.goto((tmp_path / "page.html").as_uri())
            page.wait_for_selector("#time:has-text('warp 0, time 0 ')")
            box = page.locator("#chart").bounding_box()
            page.mouse.move(box["x"] + 70, box["y"] + 30)
            page.mouse.down()
            page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 50)
            page.mouse.up()
            page.wait_for_selector("#time:has-text('warp 1, ')")
            page.focus("#chart")
            page.keyboard.press("Home")
            for _ in range(3):
                page.keyboard.press("ArrowRight")
            page.wait_for_selector("#detail h2:has-text('Lanes that run it')")
            for tab in ("PTX", "SASS", "Source"):
                page.click(f"role=tab[name={tab}]")
                assert faint(page, "html", 30) == []
            picture(page, f"microscope-{theme}")
            page.set_viewport_size({"width": 390, "height": 800})
            assert sideways(page) <= 0 and errors == []


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "out.npy", np.zeros(64, np.uint32))
    (tmp_path / "turn.ptx").write_text(PTX)
    page = tmp_path / "page.html"
    launch = ["--grid", "1", "--block", "64", "--arg", str(tmp_path / "out.npy")]
    assert main(["run", str(tmp_path / "turn.ptx"), *launch, "--html", str(page)]) == 0
    assert len(unpacked(page.read_text(encoding="utf-8"))["ptx"]) > 10
    assert main(["run", str(tmp_path / "turn.ptx"), *launch, "--html", str(tmp_path)]) == 2
    assert f"The page cannot be written to {tmp_path}" in capsys.readouterr().err


LOOP = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry turns(.param .u64 out)
{
    .reg .u32 %r<4>; .reg .u64 %rd<4>; .reg .pred %p;
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.u64 %rd1, %rd1, %rd0;
    mov.u32 %r1, 0;
again:
    add.u32 %r1, %r1, 1;
    bar.sync 0;
    setp.lt.u32 %p, %r1, 1500;
    @%p bra again;
    st.global.u32 [%rd1], %r1;
    ret;
}
"""
# The rectangles of one drawing, how often it asks for the chart's width, and what there is to draw.
COUNTED = """() => {
    let boxes = 0, asked = 0;
    const fill = CanvasRenderingContext2D.prototype.fillRect;
    const width = Object.getOwnPropertyDescriptor(Element.prototype, "clientWidth");
    CanvasRenderingContext2D.prototype.fillRect = function (...given) { boxes++; return fill.apply(this, given); };
    Object.defineProperty(Element.prototype, "clientWidth", {get() { asked++; return width.get.call(this); }});
    drawn = ""; paint();
    return [boxes, asked, C.issues.length / ISSUE, D.warps, width.get.call($("chart"))];
}"""


def test_a_drawing_takes_work_for_its_pixels_and_not_for_each_instruction(tmp_path: Path) -> None:
    out = np.zeros(128, np.uint32)
    emulate(LOOP, grid=1, block=128, args=(out,)).profile().microscope().save(tmp_path / "page.html")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 800, "height": 600})
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_selector("#time:has-text('warp 0, time 0 ')")
        boxes, asked, issues, warps, wide = page.evaluate(COUNTED)
    assert issues > 20_000 and boxes <= warps * (wide + 3) and asked < 20
