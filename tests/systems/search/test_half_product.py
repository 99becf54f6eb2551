"""The templated half-precision product: every kind of choice is right, and its neighbours and blocks are as said."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from math import prod
from pathlib import Path
from random import Random

import numpy as np
import pytest

from autograder.spec import half_products
from autograder.spec.task import Family
from systems.search.half_product import CHOICES, HalfChoice, Shape, code_of, guess, named, neighbours, source_of
from tests.sampling import part_of
from warplab.emulator import execute
from warplab.plan.capture.submission import capture
from warplab.plan.model import EMULATED_ARCHITECTURE, ArrayArgument, HostCall, Plan, Role

pytestmark = pytest.mark.processes

SHAPE = 136, 200, 328
SMS = 2  # so few that blocks which stay make several tiles
KINDS = (
    HalfChoice("warps", 32, 64, 64, 6),
    HalfChoice("warps", 128, 32, 128, 3, splits=2),
    HalfChoice("warps", 16, 32, 32, 4, slices=4),
    HalfChoice("warps", 32, 64, 32, 1, splits=2, slices=2),
    HalfChoice("warps", 128, 32, 64, 2, splits=4, slices=2),
    HalfChoice("warpgroups", 64, 64, 64, 3),
    HalfChoice("warpgroups", 64, 128, 64, 6, splits=4),
    HalfChoice("warpgroups", 128, 64, 64, 7, together=2, stays=True),
    HalfChoice("warpgroups", 64, 192, 64, 6, stays=True),
    HalfChoice("warpgroups", 192, 64, 64, 5, splits=2),
    HalfChoice("warpgroups", 192, 192, 64, 3),
    HalfChoice("warpgroups", 256, 128, 64, 3, splits=2),
    HalfChoice("warpgroups", 40, 64, 64, 8, turned=True),
    HalfChoice("warpgroups", 48, 64, 64, 4, splits=3, turned=True),
    HalfChoice("warpgroups", 96, 128, 64, 4, stays=True, turned=True),
    HalfChoice("warps", 16, 16, 32, 4, slices=8),
    HalfChoice("warpgroups", 128, 64, 64, 4, splits=3),
)


def captured(choices: Sequence[HalfChoice], shape: Shape = SHAPE) -> list[Plan]:
    m, n, k = shape
    arguments = (
        ArrayArgument("a", "float16", (m, k), Role.INPUT),
        ArrayArgument("b", "float16", (k, n), Role.INPUT),
        ArrayArgument("c", "float16", (m, n), Role.OUTPUT),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "product.py"
        path.write_text(source_of(choices, SMS, EMULATED_ARCHITECTURE), encoding="utf-8")
        calls = [HostCall(f"{choice.name}_product", arguments) for choice in choices]
        return capture(path, calls, (EMULATED_ARCHITECTURE,))


@pytest.fixture(scope="module")
def plans() -> dict[HalfChoice, Plan]:
    return dict(zip(KINDS, captured(KINDS), strict=True))


@pytest.mark.parametrize("choice", KINDS, ids=lambda choice: choice.name)
def test_products_are_those_of_float32_sums(choice: HalfChoice, plans: dict[HalfChoice, Plan]) -> None:
    """Normal numbers within the labs' bound, whole numbers to the bit: sums in half precision keep neither.

    Normal ones for every fourth kind in `make test`: whole ones see everything but what a sum is rounded to.
    """
    m, n, k = SHAPE
    random = np.random.default_rng(2)
    normal = {"a": random.standard_normal((m, k)), "b": random.standard_normal((k, n))}
    whole = {"a": random.integers(-4, 5, (m, k)), "b": random.integers(-4, 5, (k, n))}
    normal, whole = ({name: x.astype(np.float16) for name, x in values.items()} for values in (normal, whole))
    half_products.place(np, Family.INTEGERS, whole, Random(2))
    bound = half_products.bound(np, normal)["c"]
    tried = [(whole, np.zeros_like(bound))] + [(normal, bound)] * (choice in part_of(KINDS, 4, type))
    for values, allowed in tried:
        run = execute(plans[choice], values)
        true = half_products.expected(np, values)["c"]
        if values is whole:
            true = true.astype(np.float16)
        assert not run.findings and (abs(run.outputs["c"].astype(np.float64) - true) <= allowed).all()


# More than eight rows of tiles, more steps than stages, blocks with several tiles or none; less than a step or a tile
AT_THE_EDGES = {
    (601, 72, 136): ("warps_16_32_32_4_1_1_4", "warpgroups_64_64_64_3_1_1", "warpgroups_64_64_64_8_1_2_stays"),
    (136, 1160, 584): ("warps_32_32_32_3_1_1_8", "warpgroups_40_64_64_4_1_1_turned_stays", "warpgroups_64_64_64_8_3_1"),
    (3, 72, 520): ("warps_16_16_32_6_1_1_16", "warpgroups_128_128_64_5_8_1", "warpgroups_16_64_64_8_4_1_turned"),
    (1, 8, 8): ("warps_32_32_64_6_1_1", "warpgroups_256_64_64_3_1_1_stays", "warpgroups_24_64_64_8_1_1_turned"),
}


@pytest.mark.parametrize("shape", AT_THE_EDGES, ids=str)
def test_whole_numbers_are_exact_at_the_edges(shape: Shape) -> None:
    m, n, k = shape
    random = np.random.default_rng(3)
    values = {name: random.integers(-4, 5, size).astype(np.float16) for name, size in (("a", (m, k)), ("b", (k, n)))}
    true = (values["a"].astype(np.float64) @ values["b"].astype(np.float64)).astype(np.float16)
    for plan in captured([named(name) for name in AT_THE_EDGES[shape]], shape):
        run = execute(plan, values)
        assert not run.findings and (run.outputs["c"] == true).all()


@pytest.mark.parametrize("choice", KINDS, ids=lambda choice: choice.name)
def test_what_a_choice_says_is_what_is_launched(choice: HalfChoice, plans: dict[HalfChoice, Plan]) -> None:
    (launch,) = plans[choice].launches
    assert launch.grid == (*choice.grid(SHAPE, SMS), 1) and launch.block == (choice.threads, 1, 1)
    assert launch.shared_bytes == choice.shared_bytes and launch.cluster[0] == choice.splits * choice.together


def test_choices_fit_a_block_and_have_names_of_their_own() -> None:
    assert len(CHOICES) == 395 == len({choice.name for choice in CHOICES})
    assert all(choice.shared_bytes + 16 * choice.stages <= 227 * 1024 for choice in CHOICES)
    assert len({code_of(choice) for choice in CHOICES}) == len(CHOICES)


def test_a_name_says_everything() -> None:
    assert all(named(choice.name) == choice for choice in CHOICES)
    with pytest.raises(ValueError, match="is no name of a choice"):
        named("warpgroups_64_64")


def test_neighbours_are_mutual_and_lead_everywhere() -> None:
    """From any choice, steps to neighbours come to all: evolution can find the best of them."""
    reached, left = {CHOICES[0]}, [CHOICES[0]]
    while left:
        for other in neighbours(left.pop()):
            if other not in reached:
                reached.add(other)
                left.append(other)
    assert reached == set(CHOICES)
    assert all(choice in neighbours(other) for choice in CHOICES for other in neighbours(choice))


def test_blocks_that_stay_are_no_more_than_sms_and_cover_every_tile() -> None:
    for choice in CHOICES:
        for shape in ((64, 64, 64), (2112, 576, 1792), (4096, 4096, 4096)):
            blocks = prod(choice.grid(shape, 132))
            units = -(-shape[0] // (choice.rows * choice.together)) * -(-shape[1] // choice.columns)
            group = choice.splits * choice.together
            assert blocks % group == 0
            assert blocks <= 132 if choice.stays else blocks == units * group


def test_a_sum_is_not_split_into_more_parts_than_it_has() -> None:
    assert not HalfChoice("warps", 32, 32, 64, 6, splits=8).takes((64, 64, 448))
    assert HalfChoice("warps", 32, 32, 64, 6, splits=8).takes((64, 64, 449))


def test_the_guess_splits_long_sums_of_few_outputs_and_no_others() -> None:
    long, wide = (64, 64, 4096), (4096, 4096, 64)
    best = {shape: min(CHOICES, key=lambda choice: guess(choice, shape, 132)) for shape in (long, wide)}
    assert best[long].splits == 8 and best[wide].splits == 1
