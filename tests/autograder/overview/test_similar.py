"""What `autograder similar` lists: copies once however many, what was pasted from known texts, the common parts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from autograder.classroom.entries import ClassError
from autograder.classroom.hand_in import HandedIn
from autograder.classroom.ledger import RECORD, Ledger
from autograder.overview import compared_texts, similar
from autograder.overview.alike import ComparedWork, given_runs, pairs
from autograder.overview.alike_groups import entries
from autograder.overview.common_parts import common_parts
from autograder.overview.tokens import tokens
from autograder.spec.lab import CHECKOUT, find_any

LAB = find_any("03_transpose")
REFERENCE, PADDED, NAIVE = (
    (CHECKOUT / "solutions" / LAB.name / name).read_text()
    for name in ("submission.py", "rung_3_padded.py", "rung_1_naive.py")
)
OWN = """
def transpose(a, out):
    rows, columns = a.shape
    for block in range(0, rows, 32):
        while block < columns and not rows % 7:
            block = block + (columns - 1) // 2
        out[block] = [value * 2 for value in a[block] if value]
    return None if rows else {key: [1, 2] for key in range(columns)}
"""


def work(name: str, text: str, known: bool = False) -> ComparedWork:
    return ComparedWork(name, text, tuple(tokens(text)), None, known)


def test_copies_are_one_entry_and_hide_no_other_pair() -> None:
    """Twelve identical files and a real pair of copies."""
    pair = OWN.replace("% 7", "% 9 and block > 2")
    class_ = [work(f"s{number:02d}", NAIVE) for number in range(12)]
    class_ += [work("ada", OWN), work("bob", pair), work("eve", REFERENCE.replace("out", "result"))]
    listed = entries(pairs(class_))
    assert listed[0].members == tuple(f"s{number:02d}" for number in range(12)) and listed[0].least == 1
    assert {"ada", "bob"} in [set(entry.members) for entry in listed[:3]]
    assert len(listed) <= 1 + 4 * 3 // 2  # the group, and pairs of four


def test_no_two_of_a_group_are_less_alike_than_it_says() -> None:
    """A chain of small changes is no group from end to end."""
    rows = [f"    x{n} = a[{n}] + f(b, 'c') if a else [{n}] * {'-' * n}1" for n in range(40)]
    texts = ["def f(a, b):\n" + "\n".join(rows[start : start + 30]) + "\n" for start in range(0, 10)]
    found = pairs([work(f"s{number}", text) for number, text in enumerate(texts)])
    by_names = {frozenset((pair.first.name, pair.second.name)): pair.strongest for pair in found}
    for entry in entries(found):
        for one in entry.members:
            for other in entry.members:
                assert one == other or by_names[frozenset((one, other))] >= entry.least


@pytest.mark.parametrize("more", ["", OWN * 6], ids=["alone", "among much else"])
def test_a_pasted_solution_is_named(more: str) -> None:
    given = given_runs(similar.starters(LAB))
    known = [work(one.name, one.content.decode(), True) for one in compared_texts.solutions(LAB)]
    renamed = PADDED.replace("tile", "buffer") + more
    listed = entries(pairs([work("ada", renamed), work("bob", OWN), *known], given))
    assert listed[0].members[0] == "ada" and listed[0].pasted == f"solutions/{LAB.name}/rung_3_padded.py"
    assert not any(entry.pasted for entry in listed if "bob" in entry.members)


def test_a_group_that_pasted_is_one_entry_with_its_source() -> None:
    known = [work("known/answer.md", REFERENCE, True)]
    listed = entries(pairs([work(name, REFERENCE) for name in ("a", "b", "c")] + known))
    assert [entry.members for entry in listed] == [("a", "b", "c")] and listed[0].pasted == "known/answer.md"


def test_common_parts_are_found_wherever_they_were_moved() -> None:
    """Two functions in the other order: two parts, at the lines where they are."""
    one = "def first(a, b):\n    for i in range(a):\n        b[i] = a * i + (b[i] - 1)\n    return b\n"
    two = "def second(x):\n    while x > 2 and not x % 3:\n        x = [y for y in x if y]\n    return {1: x}\n"
    between = "LIMIT = 3\n"
    (pair,) = pairs([work("a", one + between + two), work("b", two + one)])
    parts = {(part.first, part.second) for part in common_parts(pair, Counter())}
    assert parts == {((1, 4), (5, 8)), ((6, 9), (1, 4))}
    given = given_runs([tokens(two)])
    assert [part.first for part in common_parts(pair, given)] == [(1, 4)]


def test_the_page_shows_both_texts_and_escapes_them() -> None:
    text = OWN + "# <script>alert(1)</script>\n"
    given = given_runs([])
    found = pairs([work("<b>", text), work("bob", text)], given)
    page = similar.page(LAB, found, entries(found), given)
    assert "<script" not in page and "<b>" not in page and page.count("&lt;script&gt;") == 2
    assert 'href="#e1v1p1b"' in page and 'id="e1v1p1b"' in page


def test_known_texts_are_read_as_submissions_are(tmp_path: Path) -> None:
    """Fences, prose, notebooks and device code: each gives the tokens that a submission of it has."""
    kernel = 'extern "C" __global__ void t(const float* a, float* b, int n) { b[n * 3 + 1] = a[n] * 2.0f; }'
    in_python = f'import cupy\nk = cupy.RawModule(code=r"""\n{kernel}\n""")\n'
    (tmp_path / "fenced.md").write_text(f"Here's why it's fast:\n\n```python\n{OWN}```\nThat's all.\n")
    (tmp_path / "words.txt").write_text(f"Here's the kernel you asked for.\n{OWN}")
    (tmp_path / "cell.ipynb").write_text(json.dumps({"cells": [{"cell_type": "code", "source": OWN}]}))
    (tmp_path / "kernel.cu").write_text(kernel)
    (tmp_path / "answer.txt").write_text(f"~~~cuda\n{kernel}\n~~~\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    for lab in (LAB.name, "04_reduction"):
        (tmp_path / lab).mkdir()
        (tmp_path / lab / "mine.py").write_text("x = 1\n")
    found = {one.name.partition("/")[2]: one.content.decode() for one in compared_texts.collected(tmp_path, LAB)}
    names = {"fenced.md", "words.txt", "cell.ipynb", "kernel.cu", "answer.txt", f"{LAB.name}/mine.py"}
    assert set(found) == names
    kinds = [token.kind for token in tokens(OWN)]
    for name in ("fenced.md", "words.txt", "cell.ipynb"):
        assert [token.kind for token in tokens(found[name])] == kinds
    inner = [token.kind for token in tokens(in_python)]
    for name in ("kernel.cu", "answer.txt"):
        mine = [token.kind for token in tokens(found[name])]
        assert "extern" in mine and mine[3:] == inner[-len(mine) + 2 : -1]


def test_earlier_classes_are_read_and_nothing_else(tmp_path: Path) -> None:
    with Ledger(tmp_path / "2025" / RECORD) as ledger:
        for text in (OWN, NAIVE, OWN):
            ledger.take_in([HandedIn("ada", LAB.name, "submission.py", text.encode())])
    found = compared_texts.earlier(tmp_path / "2025", LAB, hidden=False)
    assert {one.content.decode() for one in found} == {OWN, NAIVE} and all(one.known for one in found)
    assert all(one.name.startswith("ada in ") for one in found)
    with Ledger(tmp_path / "2025" / RECORD, reads=True) as ledger:
        pseudonym = ledger.pseudonyms()["ada"]
    for one in compared_texts.earlier(tmp_path / "2025", LAB, hidden=True):
        assert one.name.startswith(f"{pseudonym} in ")
    for folder, words in ((tmp_path, "no record"), (tmp_path / "none", "no record")):
        with pytest.raises(ClassError, match=words):
            compared_texts.earlier(folder, LAB, hidden=False)
    with pytest.raises(ClassError, match="no folder"):
        compared_texts.collected(tmp_path / "none", LAB)
    with pytest.raises(ClassError, match="no text to compare"):
        compared_texts.collected(tmp_path, LAB)
