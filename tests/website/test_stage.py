"""The site is complete: its links lead somewhere, nothing comes from elsewhere, and no answer shows unasked."""

from __future__ import annotations

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scripts import notebooks
from website import figures, stage
from website.__main__ import main

LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src"}


class Page(HTMLParser):
    """What a page loads, and the ids and text of what it folds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.silent: list[str] = []  # pictures without words
        self.folded: list[str] = []
        self.open = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag in LOADED and values.get(LOADED[tag]):
            self.loads.append(values[LOADED[tag]] or "")
        if tag == "img" and (not values.get("alt") or str(values["alt"]).endswith(".png")):
            self.silent.append(values.get("src") or "")
        if tag == "link" and "stylesheet" in (values.get("rel") or ""):
            self.loads.append(values["href"] or "")
        self.open += tag == "details"

    def handle_endtag(self, tag: str) -> None:
        self.open -= tag == "details"

    def handle_data(self, data: str) -> None:
        if self.open:
            self.folded.append(data)


def test_a_link_leads_to_a_page_or_to_the_repository() -> None:
    page = Path("notebooks/06_tiled_gemm.ipynb")
    known = {page, Path("docs/measuring.md"), Path("labs/06_tiled_gemm/README.md")}
    linked = stage._linker(page, known)
    home = stage.repository()
    for before, after in {
        "[a](../docs/measuring.md#launches)": "[a](../docs/measuring.md#launches)",
        "[a](../labs/06_tiled_gemm)": "[a](../labs/06_tiled_gemm/README.md)",
        "[a](../warplab/errors.py)": f"[a]({home}/blob/main/warplab/errors.py)",
        "[a](../warplab)": f"[a]({home}/tree/main/warplab)",
        "[a](#3-·-Rung-1:-one-thread,-one-result)": "[a](#3--rung-1-one-thread-one-result)",
        "[a](https://example.org/x.md)": "[a](https://example.org/x.md)",
        "kernel[blocks, 32](out)": "kernel[blocks, 32](out)",
    }.items():
        assert linked(before) == after


def test_the_page_of_reports_leads_back_and_to_pages_or_to_the_repository() -> None:
    known = {Path("labs/03_transpose/README.md")}
    text = (
        '<body>\n<a href="#report-1">1</a> <a href="../../labs/03_transpose/README.md#the-edges">2</a>'
        ' <a href="../../solutions/03_transpose/submission.py">3</a> <a href="https://example.org/x">4</a>'
    )
    home = stage.repository()
    assert re.findall(r'href="([^"]*)"', stage._reports(text, known)) == [
        "../index.html",
        "#report-1",
        "../labs/03_transpose/README.html#the-edges",
        f"{home}/blob/main/solutions/03_transpose/submission.py",
        "https://example.org/x",
    ]


def test_what_stands_between_a_question_and_its_answer_is_folded() -> None:
    def cell(source: str, *outputs: str) -> dict:
        shown = [{"data": {"text/markdown": text}} for text in outputs]
        return {"cell_type": "code", "metadata": {}, "source": source, "outputs": shown}

    sources = ["print(1)", 'guess = predict("a", "b", "c")', "print(2)", "reveal(guess, 3)", "print(4)"]
    cells = [cell(source, "3") for source in sources]
    made = json.loads(stage._chapter(json.dumps({"cells": cells}), str))
    assert [c["metadata"]["tags"] for c in made["cells"]] == [[], [], ["hide-output"], ["hide-output"], []]
    cells[3] = cell(sources[3], "<details><summary>Show me</summary>\n\n3\n\n</details>")
    made = json.loads(stage._chapter(json.dumps({"cells": cells}), str))
    assert made["cells"][3]["metadata"]["tags"] == [], "an answer that is folded once is not folded twice"


@pytest.mark.processes
@pytest.mark.slow
def test_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, place in (("SITE", "site"), ("EXTRA", "extra")):
        monkeypatch.setattr(stage, name, tmp_path / place)
    monkeypatch.setattr(notebooks, "EXECUTED", tmp_path / "executed")
    monkeypatch.setenv("WARPLAB_DATA", os.environ.get("WARPLAB_DATA", ""))  # what `execute` sets
    assert notebooks.execute([notebooks.SOURCES / "03_warps_and_latency.md"]) == []
    monkeypatch.setattr(figures, "small", lambda picture: picture)
    assert main() == 0  # Sphinx's warnings are errors, links that lead nowhere among them
    built = tmp_path / "site" / "html"
    for path in stage.pages():
        assert path == Path("docs/README.md") or (built / path).with_suffix(".html").exists()
    for path in (path for path in built.rglob("*.html") if "_static" not in path.parts):
        text = path.read_text(encoding="utf-8")
        page = Page(text)
        assert not [place for place in page.loads if re.match(r"(https?:)?//", place)], path
        assert page.silent == [], path
        assert "<html lang=" in text and "<title>" in text and "viewport" in text
        files = [place for place in page.loads if "://" not in place and not place.startswith("data:")]
        assert [place for place in files if not (path.parent / place.partition("?")[0]).exists()] == []
    styles = "".join(path.read_text(encoding="utf-8") for path in built.rglob("*.css"))
    assert not re.search(r"url\([\"']?(https?:)?//", styles)
    folded = "".join(Page((built / "notebooks" / "03_warps_and_latency.html").read_text(encoding="utf-8")).folded)
    assert "of the lanes, as long as the paths are apart" in folded
    assert "warp" in (built / "searchindex.js").read_text(encoding="utf-8")
