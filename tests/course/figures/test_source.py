from html.parser import HTMLParser
from io import BytesIO

import pytest

from warplab.figures.annotated import annotate, source_text
from warplab.figures.source import source, source_html
from warplab.plan.execution import Counters

TEXT = "\n".join(
    [
        "from numba import cuda",
        "",
        "@cuda.jit",
        "def kernel(a, out):",
        "    i = cuda.grid(1)",
        "    if i < out.size:",
        '        out[i] = a[i * 32]  # <script>$x$"',
        "        tile[i] = a[i]",
        *[f"    # {n}" for n in range(9, 30)],
    ]
)
LINES = {
    0: Counters(global_load_requests=1, global_load_sectors=1),  # not attributed to a line
    6: Counters(divergent_branches=2, warp_instructions=50),
    7: Counters(
        global_load_requests=10,
        global_load_sectors=320,
        global_load_ideal_sectors=40,
        global_store_requests=10,
        global_store_sectors=40,
        global_store_ideal_sectors=40,
    ),
    8: Counters(
        global_load_requests=10,
        global_load_sectors=40,
        global_load_ideal_sectors=40,
        shared_store_requests=10,
        shared_store_wavefronts=40,
        shared_store_bank_conflicts=30,
    ),
    12: Counters(warp_instructions=1000),  # nothing to show
}


def test_costs_stand_beside_their_line() -> None:
    rows = {row.number: row for row in annotate(TEXT, LINES)}
    assert {name: cell.text for name, cell in rows[7].cells.items()} == {"global sectors": "360", "a request": "18.0"}
    assert rows[7].cells["a request"].waste == pytest.approx(1 - 80 / 360)
    assert rows[8].cells["a request"].waste == 0
    assert rows[8].cells["bank conflicts"].text == "30" and rows[8].cells["bank conflicts"].waste == 0.75
    assert rows[6].cells["divergent"].text == "2"


def test_only_the_counted_kernel_is_shown_from_its_decorator() -> None:
    assert [row.number for row in annotate(TEXT, LINES)] == list(range(3, 12))
    assert len(annotate(TEXT, {})) == len(TEXT.splitlines())
    cpp = 'code = r"""\ntemplate <int N>\n__global__ void k(float* a) {\n    a[0] = 1;\n}\n"""'
    assert annotate(cpp, {4: LINES[8]})[0].number == 2


@pytest.mark.parametrize(
    ("sectors", "ideal", "waste"),
    [(16, 16, 0), (16, 4, 0.75), (1, 4, 0), (16, 0, 0)],  # 16-byte lanes, stride 4, broadcast, ideal not counted
)
def test_waste_is_what_lies_beyond_the_ideal(sectors: int, ideal: int, waste: float) -> None:
    counters = Counters(global_load_requests=1, global_load_sectors=sectors, global_load_ideal_sectors=ideal)
    row = next(r for r in annotate(TEXT, {7: counters}) if r.number == 7)
    assert row.cells["a request"].waste == waste


def test_local_memory_is_all_waste() -> None:
    spilled = {7: Counters(local_load_requests=1, local_load_sectors=4)}
    row = next(r for r in annotate(TEXT, spilled) if r.number == 7)
    assert row.cells["local sectors"].waste == 1


def test_the_picture_has_a_cell_for_each_number() -> None:
    figure = source(TEXT, LINES)
    figure.savefig(BytesIO(), format="png")
    (axes,) = figure.axes
    cells = {p.get_gid(): p for p in axes.patches if p.get_gid()}
    assert set(cells) == {
        "6 divergent",
        "7 global sectors",
        "7 a request",
        "8 global sectors",
        "8 a request",
        "8 shared wavefronts",
        "8 bank conflicts",
    }
    # Line 8 stands one row below line 7, and the same column has the same place.
    assert cells["8 a request"].get_x() == cells["7 a request"].get_x()
    assert cells["8 a request"].get_y() - cells["7 a request"].get_y() == pytest.approx(0.2)
    # The wasteful cell is redder than the clean one.
    red, clean = cells["7 a request"].get_facecolor(), cells["8 a request"].get_facecolor()
    assert red[1] < clean[1] and red[2] < clean[2]


def test_a_file_without_counters_draws() -> None:
    source("", {}).savefig(BytesIO(), format="png")
    source("a = 1", {}).savefig(BytesIO(), format="png")


def test_html_is_balanced_and_escaped() -> None:
    class Checker(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []
            self.rows = 0

        def handle_starttag(self, tag: str, attrs: list) -> None:
            self.open.append(tag)
            self.rows += tag == "tr"

        def handle_endtag(self, tag: str) -> None:
            assert self.open.pop() == tag

    page = source_html(TEXT, LINES)
    checker = Checker()
    checker.feed(page)
    assert not checker.open and checker.rows == 1 + 9
    assert "<script>" not in page and "&lt;script&gt;" in page


def test_text_for_a_terminal_marks_waste() -> None:
    rows = source_text(TEXT, LINES).splitlines()
    titles = ("line", "global sectors", "a request", "shared wavefronts", "bank conflicts", "divergent")
    assert " ".join(rows[0].split()) == " ".join(titles)
    line_seven = next(row for row in rows if row.startswith("    7 "))
    assert line_seven.split()[-2:] == ["360", "18.0!"]
    line_eight = next(row for row in rows if row.startswith("    8 "))
    assert line_eight.split()[-4:] == ["40", "4.0", "40", "30!"]
