"""Draws the parameters of a question: the same for the same seed, on every machine."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping

from course.quiz.expression import Value, evaluate, fill
from course.quiz.question import Drawn, Kind, Option, Question


def draw(question: Question, seed: str) -> Drawn:
    """The question as the learner of this seed sees it. Raises ExpressionError if the bank's arithmetic is wrong."""
    source = random.Random(f"{seed}/{question.id}")  # seeded by text, which Python hashes the same way everywhere
    return fix(question, {name: source.choice(values) for name, values in question.draw.items()}, seed)


def every_draw(question: Question) -> Iterator[Drawn]:
    """The question with all parameters that can be drawn, one after the other."""
    for values in itertools.product(*question.draw.values()):
        yield fix(question, dict(zip(question.draw, values, strict=True)), "every")


def fix(question: Question, parameters: Mapping[str, Value], seed: str) -> Drawn:
    """The question with these parameters; the seed decides the order of the options alone."""
    names = dict(parameters)
    for name, expression in question.let.items():
        names[name] = evaluate(expression, names)
    answer: float | int | str = question.answer
    options = [Option(fill(o.text, names), fill(o.why, names), o.right) for o in question.options]
    if question.kind is Kind.NUMBER:
        value = evaluate(question.answer, names)
        assert not isinstance(value, str)
        answer = names["answer"] = value
    elif question.kind is Kind.CHOICE:
        random.Random(f"{seed}/{question.id}/options").shuffle(options)
        answer = next(place for place, option in enumerate(options) if option.right)
    traps = tuple((float(evaluate(trap.value, names)), fill(trap.says, names)) for trap in question.traps)
    ask, hint, worked = (fill(text, names) for text in (question.ask, question.hint, question.worked))
    return Drawn(question, seed, names, ask, hint, worked, answer, tuple(options), traps)
