"""The quiz's machinery: arithmetic and nothing else, units, drawing, hints, what is kept, what a page shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from course.quiz import chapters, draw, load, quiz, standing
from course.quiz.__main__ import main
from course.quiz.bank import BankError, parse
from course.quiz.check import check, in_unit
from course.quiz.draw import every_draw
from course.quiz.expression import ExpressionError, evaluate, fill
from course.quiz.progress import Progress, data_folder
from course.quiz.question import Drawn, Kind
from course.quiz.sheet import inline
from course.quiz.widget import Asked


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLAB_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("WARPLAB_QUIZ_SEED", raising=False)


def one(identity: str, seed: str = "0") -> Drawn:
    chapter = next(load(name) for name in chapters() if name.startswith(identity[:2]))
    return draw(next(q for q in chapter.questions if q.id == identity), seed)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2*m*n/(m + n)", 2 * 6 * 3 / 9),
        ("m^2 × 2 − n", 69),
        ("ceil(n / 2) if m >= 6 else 0", 2),
        ("chip.sms + H200.bandwidth / 1e12", 136.8),
        ("-gcd(m, n)", -3),
    ],
)
def test_arithmetic(text: str, value: float) -> None:
    assert evaluate(text, {"m": 6, "n": 3, "chip": "H100"}) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "().__class__", "m.real", "(lambda: 1)()", "[m for m in (1,)]", "open('x')",
        "max(*m)", "m if", "9**9**9", "2^1e9", "x + 1", "m / 0", "sqrt(-1)", "'a' * 3", "True", "m" * 400, "(" * 200,
        "chip.name", "chip.nothing", "chip.memory_type",
    ],
)  # fmt: skip
def test_nothing_but_arithmetic(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, {"m": 6, "chip": "H100"})
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_templates() -> None:
    assert fill("{n} of {n/3:.2f}, {chip}: {chip.sms}", {"n": 5000, "chip": "H200"}) == "5,000 of 1666.67, H200: 132"
    assert fill("{n} query head(s), {m} warp(s)", {"n": 1, "m": 21}) == "1 query head, 21 warps"


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("4.8", "TB/s", 4.8), ("4,800 GB/s", "TB/s", 4.8), ("4.8e12 B/s", "TB/s", 4.8), ("6 TFLOPS", "TFLOP/s", 6),
        ("64 KiB", "KiB", 64), ("65536 bytes", "KiB", 64), ("1 sector", "sectors", 1), ("50%", "%", 50),
        ("2 µs", "us", 2), ("0.002 ms", "us", 2), ("1.", "", 1), ("-3", "", -3), ("12,345.5", "", 12345.5),
    ],
)  # fmt: skip
def test_numbers_with_units(text: str, unit: str, value: float) -> None:
    assert in_unit(text, unit) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "many", "1 2 sectors x", "4.8 ms", "1.2.3", "3 TB"])
def test_what_is_no_number_in_the_unit_is_no_attempt(text: str) -> None:
    verdict = check(one("05-attainable"), text)
    assert not verdict.right and not verdict.understood and "\n" not in verdict.message


@pytest.mark.parametrize("text", ["15,7", "1,2,3", "1500,000", "0,5", "4,80 TB/s"])
def test_a_comma_that_groups_no_thousands_is_asked_about(text: str) -> None:
    with pytest.raises(ValueError, match="15.7 with a point"):
        in_unit(text, "TB/s")


def test_a_share_where_percent_are_asked_for_is_no_attempt() -> None:
    question = one("04-structures")
    verdict = check(question, repr(float(question.answer) / 100))
    assert not verdict.right and not verdict.understood and "In percent" in verdict.message
    assert check(question, repr(float(question.answer))).right


def test_a_formula_is_judged_by_its_values() -> None:
    formula = one("05-gemm-formula")
    assert check(formula, "2/(b*(1/n + 1/m + 1/k))").right
    wrong = check(formula, "2*m*n*k")
    assert not wrong.right and wrong.understood and "m = 16" in wrong.message
    assert not check(formula, "m +").understood and not check(formula, "m*z").understood


@pytest.mark.processes
def test_a_seed_draws_the_same_everywhere_and_seeds_differ() -> None:
    questions = [q for name in chapters() for q in load(name).questions]
    mine = [draw(q, "alice").ask for q in questions]
    code = "from course.quiz import *\nprint([draw(q, 'alice').ask for n in chapters() for q in load(n).questions])"
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert other.stdout.strip() == str(mine)
    assert sum(a != b for a, b in zip(mine, [draw(q, "bob").ask for q in questions], strict=True)) > 20


def test_every_text_is_filled_and_every_source_is_a_link_or_a_datasheet() -> None:
    for name in chapters():
        for question in load(name).questions:
            assert question.id.startswith((f"{name[:2]}-", f"{name.partition('_')[0]}-")) and question.sources
            for source in question.sources:
                assert source.text and (not source.url or source.url.startswith("https://"))
            for drawn in every_draw(question):
                texts = [drawn.ask, drawn.hint, drawn.worked, *(o.text + o.why for o in drawn.options)]
                assert not any(re.search(r"[{}]|\ba [AH]\d|\(s\)", text) for text in texts), question.id


def asked(identity: str) -> Asked:
    return Asked(1, one(identity), Progress())


def test_the_hint_comes_with_the_second_wrong_answer_and_then_the_way() -> None:
    page = asked("05-ridge")
    hint = page.drawn.hint[:20]
    page.answer("1")
    assert "Not right" in page.feedback.value and hint not in page.feedback.value and page.reveal.disabled
    page.answer("1")  # the same answer again, as when the field is left and the button pressed
    page.answer("what?")  # cannot be read: no attempt
    assert Progress().state("0", "05-ridge").tries == 1
    page.answer("2")
    assert hint in page.feedback.value and not page.reveal.disabled
    page.show_worked()
    assert "Peak over bandwidth" in page.worked.value and "Source:" in page.worked.value
    page.answer(str(page.drawn.answer))
    assert "Right" in page.feedback.value
    state = Progress().state("0", "05-ridge")
    assert (state.tries, state.solved) == (3, True) and state.date
    page.answer("3")
    assert Progress().state("0", "05-ridge") == state, "solved stays solved"
    assert "try 3" in asked("05-ridge").feedback.value


def test_the_fields_of_a_page_work() -> None:
    page = asked("05-copy-below")
    page.button.click()
    assert "Choose one" in page.feedback.value
    page.field.value = page.drawn.answer
    page.button.click()
    assert "Right" in page.feedback.value
    number = asked("05-axpy")
    number.field.value = str(number.drawn.answer)  # leaving the field is enough
    assert "Right" in number.feedback.value
    assert dict((title, solved) for title, solved, _ in standing())["The roofline"] == 2


def test_a_saved_page_holds_questions_hints_and_folded_answers() -> None:
    shown = quiz("05")._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in shown
    text = shown["text/html"]
    count = sum(not question.more for question in load("05").questions)
    assert text.count("<details><summary>Hint</summary>") == text.count("<details><summary>Answer</summary>") == count
    assert "<script" not in text and text.count("<details>") == text.count("</details>")


def test_each_question_is_asked_once() -> None:
    for name in chapters():
        asked = [[page.drawn.question.id for page in quiz(name, more=more).asked] for more in (False, True)]
        assert sorted(asked[0] + asked[1]) == sorted(question.id for question in load(name).questions)
        assert 6 <= len(asked[0]) <= 10, name


def test_markup_is_escaped() -> None:
    assert inline("a < b & `x < *y*` *so*") == "a &lt; b &amp; <code>x &lt; *y*</code> <i>so</i>"
    assert inline("2·m * n and 3 * 4") == "2·m * n and 3 * 4"


def test_an_instructors_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLAB_QUIZ_SEED", "carol")
    shown = quiz("02")
    assert all(page.drawn.seed == "carol" for page in shown.asked)
    shown.asked[0].answer(str(shown.asked[0].drawn.answer))
    solved = {seed: dict(row[:2] for row in standing(seed=seed))["Inside an SM"] for seed in (None, "0")}
    assert solved == {None: 1, "0": 0}


def test_sheets(capsys: pytest.CaptureFixture) -> None:
    assert main(["05", "--seed", "alice"]) == 0
    sheet = capsys.readouterr().out
    assert main(["05_roofline", "--seed", "alice", "--answers"]) == 0
    solved = capsys.readouterr().out
    assert "Source:" in solved and "Source:" not in sheet
    for drawn in (draw(q, "alice") for q in load("05").questions):
        assert drawn.ask in sheet and drawn.ask in solved and drawn.worked.split("\n\n")[0] not in sheet
    assert main(["99"]) == 2 and "no quiz called '99'" in capsys.readouterr().err


def test_progress_is_kept_and_survives_two_notebooks(tmp_path: Path) -> None:
    first, second = Progress(), Progress()
    first.record("0", "a", False)
    second.record("0", "b", True)
    first.record("0", "a", True)
    assert Progress().state("0", "a").tries == 2 and Progress().solved("0", ["a", "b", "c"]) == 2
    assert os.listdir(tmp_path / "data") == ["quiz.json"], "no temporary file is left"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 9, "answers": {}}', '{"version": 1, "answers": {"0": {"a": {"tries": "x"}}}}']
)
def test_a_damaged_file_is_set_aside_not_lost(text: str) -> None:
    path = data_folder() / "quiz.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert Progress().record("0", "a", True).solved
    assert path.with_name("quiz.json.unreadable").read_text() == text
    assert json.loads(path.read_text())["answers"]["0"]["a"]["solved"] is True


def test_where_nothing_can_be_written_progress_lasts_as_long_as_the_page(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    page = asked("05-axpy")
    page.answer("77")
    assert "cannot be" in page.feedback.value
    page.answer("78")
    assert page.drawn.hint[:20] in page.feedback.value


@pytest.mark.skipif(sys.platform != "linux", reason="the folder of Linux")
def test_a_learners_files_lie_with_the_users_data(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WARPLAB_DATA", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert data_folder() == Path.home() / ".local/share/warplab"


GOOD = """
title = "T"
[[question]]
id = "09-a"
kind = "number"
title = "A"
ask = "What is {n}?"
answer = "n"
hint = "h"
worked = "w"
source = ["guide: x"]
draw = { n = [1, 2] }
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('kind = "number"', 'kind = "essay"', "essay"),
        ('answer = "n"', "", "it has no 'answer'"),
        ('hint = "h"', "", "it has no 'hint'"),
        ('hint = "h"', 'hint = "h"\nhunt = 1', "'hunt' is no key"),
        ('"guide: x"', '"somewhere"', "neither"),
        ('"guide: x"', '"H200.colour"', "no published figure"),
        ('kind = "number"', 'kind = "choice"', "'answer' does not belong to a choice"),
        ('answer = "n"', "answer = n", "is not TOML"),
    ],
)
def test_a_bad_question_is_named(old: str, new: str, complaint: str) -> None:
    assert parse("09_t", GOOD).questions[0].kind is Kind.NUMBER
    with pytest.raises(BankError) as caught:
        parse("09_t", GOOD.replace(old, new, 1))
    assert complaint in str(caught.value) and "09_t" in str(caught.value)


def test_two_questions_of_one_name() -> None:
    with pytest.raises(BankError, match="two questions called '09-a'"):
        parse("09_t", GOOD + GOOD[GOOD.index("[[question]]") :])
