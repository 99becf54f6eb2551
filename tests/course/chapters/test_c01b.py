"""Chapter 01b: what its tables take from the records, and which of a kernel's lines go with its fences."""

from __future__ import annotations

import json
from pathlib import Path

from course.chapters import c01b_working_together as c01b
from course.kernel_cell import kernel_cell
from course.measured import Measured

RECORD = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "microbench.json"


def test_the_kernel_loses_its_fences_and_nothing_else(tmp_path: Path) -> None:
    text = (
        "from numba import cuda\n\n\n@cuda.jit\ndef k(x):\n    x[0] = 1\n    cuda.threadfence()  # a\n    x[1] = 2\n"
        "\n\ndef f(x):\n    k[1, 1](x)\n"
    )
    bare = c01b.without_fences(kernel_cell("f", text, tmp_path)).path.read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line not in bare.splitlines()] == ["    cuda.threadfence()  # a"]


def test_the_atomics_are_those_of_the_record() -> None:
    records = json.loads(RECORD.read_text(encoding="utf-8"))["records"]
    rates = {(r["name"], r.get("variant")): r["value"] for r in records if "atomics" in r["name"]}
    text = c01b.table_of_atomics(Measured()).data
    for (name, place), rate in rates.items():
        if place in ("a word each", "one word"):
            assert (f"{rate:.0f} per cycle" if name == "shared atomics" else f"{rate / 1e9:.3g} billion") in text


def test_the_summary_names_a_scope_and_a_cost_for_each_way() -> None:
    rows = c01b.table_of_all(Measured()).data.splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert len(cells) == 9 and all(row[2] and row[3] for row in cells)
