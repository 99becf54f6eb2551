from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from autograder.platforms.judged import headline
from autograder.records.measurement import COPY, Library
from autograder.records.report import (
    PartResult,
    SecondOpinion,
    WastedLine,
)
from autograder.records.status import Part, Status
from autograder.records.stored import report_of
from autograder.records.text import clean, clean_source
from autograder.report import html_page, json_file, terminal
from tests.autograder.handmade import measurement
from tests.autograder.report.example_reports import RESEMBLANCE, SCRIPT, measured, report

ROOT = Path(__file__).resolve().parents[3]


class Tags(HTMLParser):
    """Collects the tags of a page and checks that they nest."""

    VOID = {"meta", "br", "img"}

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags(page: str) -> Tags:
    parser = Tags()
    parser.feed(page)
    assert parser.open == []
    return parser


def test_html_is_well_formed_and_escapes_what_a_submission_wrote() -> None:
    page = html_page.page([report()])
    assert "script" not in tags(page).seen
    assert "&lt;script&gt;" in page
    assert "k&lt;1&gt;" in page
    assert "\x1b" not in page and "\u202e" not in page
    assert "http" not in page  # self-contained


def poisoned(value: Any) -> Any:
    """`value` with a script behind every text in it, however deep; words of a fixed set stay as they are."""
    if isinstance(value, Enum):
        return value
    if isinstance(value, str):
        return f"{value}{SCRIPT}"
    if isinstance(value, tuple):
        return tuple(poisoned(item) for item in value)
    if isinstance(value, Mapping):
        return {key if key == COPY else poisoned(key): poisoned(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: poisoned(getattr(value, f.name)) for f in fields(value)})
    return value


def test_html_escapes_every_text_of_a_report() -> None:
    wasted = (WastedLine(2, 0.5, "wasted"),)
    opinions = (SecondOpinion("memcheck", "tiny", 1, "words", (2,), False),)
    library = Library("torch.mm", 1.0, 1.0)
    timing = measurement(library=library, throttle_reasons=("hot",))
    efficiency = PartResult(Part.EFFICIENCY, Status.PARTIAL, 15, 30, "half", measurement=timing)
    parts = (*report().parts[:3], efficiency)
    evil = poisoned(report(line=2, wasted=wasted, second_opinions=opinions, parts=parts, resemblance=RESEMBLANCE))
    assert evil.next_step == SCRIPT and evil.versions == {f"python{SCRIPT}": f"3.11{SCRIPT}"}
    for html in (html_page.page([evil]), html_page.page([evil, evil]), html_page.fragment(evil)):
        assert "script" not in tags(html).seen
        assert SCRIPT not in html and escape(SCRIPT) in html


@pytest.mark.processes
def test_a_report_on_the_terminal_loads_no_templates() -> None:
    code = "import sys, autograder.cli; print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_html_of_several_reports_has_an_overview() -> None:
    page = html_page.page([report(), report(lab="91_thrice")])
    tags(page)
    assert 'href="#report-1"' in page and 'id="report-1"' in page


def test_html_shows_what_each_line_costs_and_the_line_of_a_finding() -> None:
    page = html_page.page([report()])
    assert "x = load[i * 32]" in page and ">32.0<" in page  # sectors a request
    assert "<code>s = tile[i]</code>" in page


def test_html_shows_the_line_that_a_submission_was_rejected_for() -> None:
    page = html_page.page([report(profile=None, line=2)])
    assert "&gt;   2  x = load[i * 32]\n    3  s = tile[i]" in page


def test_html_puts_a_measured_kernel_on_the_roofline() -> None:
    page = html_page.page([measured(1e10)])
    assert "data:image/svg+xml;base64," in page
    tags(page)
    without_arithmetic = html_page.page([measured(0.0)])
    assert "2.00 TB/s of the 4.00 TB/s" in without_arithmetic
    assert "50.0%" in without_arithmetic


def test_the_notebook_fragment_styles_only_itself() -> None:
    html = html_page.fragment(report())
    tags(html)
    style = html.split("</style>")[0].removeprefix("<style>")
    assert all(rule.strip().startswith(".warplab-report") for rule in style.split("}") if rule.strip())


def test_json_has_no_numbers_that_json_lacks(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "reports.json"
    json_file.write_reports([report(), measured(1e10)], path)
    data = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert data["schema_version"] == 4
    first, second = data["reports"]
    assert (first["status"], first["score"], first["max_score"], first["full_score"]) == ("wrong answer", 0, 70, 100)
    assert first["efficiency"] is None and second["efficiency"] == 0.5
    assert first["parts"][0]["cases"][0]["worst_ratio"] == "inf"
    assert first["parts"][1]["findings"][0]["kind"] == "race"
    assert first["profile"]["lines"]["2"]["global_load_sectors"] == 128
    assert "source" not in first


def test_grades_have_one_object_a_report(tmp_path: Path) -> None:
    path = tmp_path / "grades.json"
    json_file.write_grades([report(), measured(1e10)], path)
    first, second = json.loads(path.read_text())
    assert {"lab", "language", "status", "score", "max_score", "parts", "device", "efficiency"} <= set(first)
    assert first["parts"]["efficiency"]["score"] is None
    assert (second["device"], second["efficiency"], second["score"]) == ("gpu", 0.5, 15)


def test_every_form_says_what_a_submission_resembles() -> None:
    resembling, output = report(resemblance=RESEMBLANCE), console()
    terminal.show(resembling, output)
    terminal.show_briefly(resembling, output)
    assert text_of(output).count("most like those of rung 1") == 2
    assert "most like those of rung 1" in html_page.page([resembling])
    data = resembling.to_json()
    assert "most like those of rung 1" in headline(resembling)
    assert data["resemblance"]["alike"][0]["share"] == 0.12
    assert report_of(data).resemblance == RESEMBLANCE


def console() -> Console:
    return Console(file=io.StringIO(), width=100, color_system="truecolor", force_terminal=True)


def text_of(output: Console) -> str:
    assert isinstance(output.file, io.StringIO)
    return output.file.getvalue()


def test_every_form_says_that_the_machine_code_was_not_known(tmp_path: Path) -> None:
    note = "The counters of k are those of its PTX, for its machine code is not known here: install nvdisasm."
    profile = report().profile
    assert profile is not None
    noted = report(profile=replace(profile, note=note))
    for show in (terminal.show, terminal.show_briefly):
        output = Console(file=io.StringIO(), width=200)
        show(noted, output)
        assert note in text_of(output)
    for page in (html_page.page([noted]), html_page.fragment(noted)):
        assert page.count(note) == 1
    json_file.write_reports([noted], tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["reports"][0]["profile"]["note"] == note
    assert "machine code" not in html_page.page([report()])


def test_the_terminal_shows_texts_of_a_submission_as_they_are() -> None:
    output = console()
    terminal.show(report(), output)
    terminal.show_briefly(report(), output)
    terminal.show_summary([report()], output)
    text = text_of(output)
    assert "\x1b[2J" not in text and "\u202e" not in text
    assert "[red]" in text  # not taken for markup
    assert "two warps met" in text and "(7 times)" in text
    assert "s = tile[i]" in text
    assert "4,096 global load sectors where 128 are allowed (32 times). Read neighbours." in text.replace("\n", " ")
    assert "section 1" in text


def test_the_headline_says_what_this_machine_cannot_judge() -> None:
    output = console()
    terminal.show(report(message="m"), output)
    assert "0 of 70 points" in text_of(output)
    assert "The lab gives 100 points" in text_of(output)


def test_clean_keeps_text_and_cuts_floods() -> None:
    assert clean("a\nb\tc\x00\x1b[0m é λ") == "a\nb c  [0m é λ"
    assert len(clean("x" * 100_000)) < 5_000


def test_source_lines_are_counted_as_python_counts_them() -> None:
    assert clean_source("a\x0cb\r\nc\u2028d\re\tf\n").split("\n") == ["a b", "c d", "e   f", ""]


def test_advice_stands_once_in_a_page() -> None:
    (budget,) = report().part(Part.TRAFFIC).budgets
    advice = f"{budget.reason} Begin with line 2."
    race = report().part(Part.SAFETY).findings[0].message
    cause = f"The sanitizers found a likely cause: {race}"
    (case,) = report().parts[0].cases
    told = tuple(replace(case, name=name, cause=cause) for name in ("tiny", "ragged"))
    parts = (replace(report().parts[0], cases=told), *report().parts[1:])
    assert html_page.page([report(next_step=advice)]).count(budget.reason) == 1
    page = html_page.page([report(parts=parts)])
    assert page.count(escape(race)) == 2  # its finding and the first case's cause


def test_counters_have_plain_names_and_nsights_on_hover() -> None:
    page = html_page.page([report()])
    assert '<abbr title="Nsight Compute: l1tex__t_sectors">global load sectors</abbr>' in page


def test_parts_that_lost_nothing_are_folded() -> None:
    passed = replace(report().parts[0], status=Status.PASSED, score=30)
    page = html_page.page([report(parts=(passed, *report().parts[1:]))])
    assert "<details>\n<summary>Correctness: 0 of 1 cases passed" in page
    assert "<details open>\n<summary>Safety: 1 finding</summary>" in page


def test_lines_in_a_terminal_open_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file, output = tmp_path / "labs" / "my lab" / "submission.py", console()
    terminal.show(report(next_step="Begin with line 2."), output, file)
    text = text_of(output)
    assert "labs/my lab/submission.py:2" in text
    assert "\x1b]8;id=" in text and f";{tmp_path.as_uri()}/labs/my%20lab/submission.py#2\x1b\\" in text
    assert "submission.py#3" in text  # the finding's line
    plain = Console(file=io.StringIO(), width=100)
    terminal.show_briefly(report(next_step="Begin with line 2."), plain, file)
    assert "labs/my lab/submission.py:2" in text_of(plain) and "\x1b" not in text_of(plain)
