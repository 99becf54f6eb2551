"""The records of measured shapes, of which several parts can have the same."""

from __future__ import annotations

from benchmarks import products


def test_a_shape_of_several_parts_is_recorded_once() -> None:
    """Drawn parts have small shapes in common, and a file that was begun twice has lines of the same shape."""
    names = [case.name for every in products.PARTS.values() for case in every()]
    assert len(set(names)) < len(names)
    lines = [
        {"case": name, "chosen": "ours", "us": {"torch": 3.0, "ours": time, "other": 4.0}}
        for time in (2.0, 1.0)
        for name in names
    ]
    made = products.records_of(lines)
    assert len({record.key for record in made}) == len(made) == len(set(names))
    assert {record.value for record in made} == {1.0}
    assert {record.variant.partition(",")[0] for record in made} == set(products.PARTS)
