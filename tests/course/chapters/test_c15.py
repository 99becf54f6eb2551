"""Chapter 15: its models against sums by hand, its records read in another way, and what its text says."""

from __future__ import annotations

import numpy as np
import pytest

from course.chapters import c15_overlap_and_megakernels as c15
from course.chapters import c15_two_gpus as two
from systems.megakernel.schedule import Op, Schedule, schedule, stages
from systems.megakernel.timeline import modelled


@pytest.fixture(scope="module")
def lists() -> Schedule:
    return schedule(c15.shape, c15.SMS, position=511)


def test_the_floor_is_the_bytes_of_the_weights_over_a_copys_rate() -> None:
    """By hand: Llama 3.2 1B has 1.236 billion parameters with its embedding once, two bytes each, and norms besides."""
    assert c15.floor == pytest.approx(2 * 1.236e9 / 4.29e12, rel=0.01)
    assert 12 * 16 * c15.gaps["stream"] / c15.floor == pytest.approx(12 * 16 * 1.47e-6 / 0.576e-3, rel=0.02)


def test_a_decoding_step_has_81_hand_overs() -> None:
    assert sum(1 for _ in stages(c15.shape)) == 5 * 16 + 1


def test_pages_are_shared_out_evenly(lists: Schedule) -> None:
    assert max(c15.pages_of(lists)) - min(c15.pages_of(lists)) <= 1
    moved = c15.shape.weight_bytes + c15.shape.cache_bytes(511)
    assert sum(c15.pages_of(lists)) * c15.shape.page == pytest.approx(moved, rel=1e-3)


def test_two_pages_are_not_enough_and_thirteen_are(lists: Schedule) -> None:
    """The table of section 6, and what its text says of it."""
    factors = c15.factors_of_rings(lists, c15.machine())
    assert factors[2] > 1.1 and factors[13] < 1.02
    assert list(factors.values()) == sorted(factors.values(), reverse=True)


def test_little_gives_less_than_a_page() -> None:
    """688 cycles of the SM's clock, 1.7 to 2 GHz, and 16 KiB at a 132nd of 4.29 TB/s."""
    of = c15.machine()
    assert of.page == pytest.approx(1e9 * 16384 / (4.29e12 / 132), rel=0.01)
    assert 688 / 2.0 < of.latency < 688 / 1.7 and of.latency / of.page < 1


def test_the_ring_of_the_measurement_hardly_matters_and_in_the_model_it_does(lists: Schedule) -> None:
    """What the prediction of section 7 says: from four pages on within a few percent."""
    full = c15.in_a_row(13, 13)
    assert all(abs(c15.in_a_row(slots, slots) / full - 1) < 0.04 for slots in c15.RINGS if slots >= 4)
    late = modelled(lists, c15.replace(c15.as_copied(), ahead=False)).max()
    assert late / modelled(lists, c15.as_copied()).max() > 1.3 and c15.in_a_row(13, 13, late=True) < 1.01 * full


def test_two_pages_in_flight_are_the_best_of_both_forms() -> None:
    for flags in (False, True):
        times = {n: c15.in_a_row(13, n, flags=flags) for n in c15.FLIGHTS}
        assert min(times, key=times.__getitem__) == 2
    gain = 1e3 * (c15.in_a_row(13, 2) - c15.in_a_row(13, 2, flags=True))
    assert gain == pytest.approx(81 * 1.3, rel=0.1)  # as the prediction says


def test_hand_overs_are_between_operators_that_follow_each_other() -> None:
    by_release, by_flags = c15.hand_overs("", "done"), c15.hand_overs("flags", "done")
    assert (
        set(by_release) == set(by_flags) and (Op.QKV, Op.ATTEND) in by_release and (Op.DOWN, Op.OUT) not in by_release
    )
    assert np.mean([*by_flags.values()]) < 0.7 * np.mean([*by_release.values()])  # "about half"


def test_the_slower_memory_is_kept_busier() -> None:
    assert c15.share_of_copy("H100") > c15.share_of_copy("H200") > 0.8


def test_of_an_all_reduce_over_a_product_only_k_is_left() -> None:
    """F / (W K), for any number of tokens that fills the tensor cores."""
    by_hand = two.flops / (two.link * 4096)
    for tokens in (1024, 4096):
        assert two.crossing(tokens) / two.product(tokens, 4096) == pytest.approx(by_hand)


def test_the_others_tiles_first_hide_more() -> None:
    """One wave hides nothing; with many waves half of the parts cross while the other half is multiplied."""
    first, last = two.layer(4096, 4096, True)[1], two.layer(4096, 4096, False)[1]
    assert two.layer(4096, 4096)[0] < first < last < two.product(4096, 4096) + 2 * two.crossing(4096)
    multiplied, end = two.layer(256, 4096)
    assert end - multiplied > two.crossing(256) and two.hidden(256, 4096) < 0 < two.hidden(4096, 4096) < 1


def test_shares_that_lose_pages_are_not_taken() -> None:
    assert c15.dealt_by(lambda pages, loads: [0] * len(loads)) is None
    shares = c15.dealt_by(lambda pages, loads: [pages] + [0] * (len(loads) - 1))
    assert shares is not None and max(shares) == sum(shares)


def test_the_sender_is_shown_up_to_its_end() -> None:
    text = two.sender().data
    assert text.startswith("```cpp\n// One thread: sends") and "wait_group" in text and text.endswith("}\n```")
