"""Where the secret numbers of a grade come from."""

from __future__ import annotations

from autograder.spec.seeds import grade_seed


def test_a_grade_is_repeated_and_tells_nothing_of_another() -> None:
    """One attempt's report must not tell the inputs of the next, nor a friend's."""
    given = (7, "ada", b"x = 1")
    assert grade_seed(*given) == grade_seed(*given)
    others = [(8, "ada", b"x = 1"), (7, "bob", b"x = 1"), (7, "ada", b"x = 1 "), (7, "adax", b" = 1")]
    seeds = {grade_seed(*one) for one in (given, *others)}
    assert len(seeds) == 5 and all(0 <= seed < 2**63 for seed in seeds)
