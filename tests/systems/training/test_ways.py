"""Every way to keep less gives the same gradients, to the bit where nothing is rounded, for the price that was told."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from systems.training import gpt, kept_as, recompute  # noqa: E402
from systems.training.formula import layer_bytes  # noqa: E402
from systems.training.memory_budget import partitioned  # noqa: E402
from systems.training.names import Names  # noqa: E402
from systems.training.operators import operators  # noqa: E402
from systems.training.planner import frontier, plan  # noqa: E402
from systems.training.sizes import Sizes  # noqa: E402
from systems.training.step import MeasuredStep, Way, step  # noqa: E402

SIZES = Sizes(layers=3, width=64, heads=4, vocabulary=50, sequence=48, batch=2)
MODEL, BATCH = gpt.make(SIZES), gpt.draw(SIZES)
ROW = SIZES.tokens * SIZES.width


def run(way: Way) -> MeasuredStep:
    return step(MODEL, *BATCH, way)


@pytest.fixture(scope="module")
def plain() -> MeasuredStep:
    return step(MODEL, *BATCH)


@pytest.fixture(scope="module")
def whole() -> MeasuredStep:
    return run(lambda names: recompute.whole)


def test_a_full_checkpoint_keeps_the_inputs_of_blocks_and_runs_all_but_the_last_product_again(
    plain: MeasuredStep, whole: MeasuredStep
) -> None:
    assert whole.same_gradients(plain) and whole.loss == plain.loss
    inside = SIZES.layers * sum(layer_bytes(SIZES).values())
    assert plain.kept - whole.kept == inside - 4 * SIZES.layers * ROW
    # A token's products: 4 h h and h f of the MLP's first (f = 4 h), and attention's 2 s h; 2 FLOP each.
    again = SIZES.layers * SIZES.tokens * 2 * (4 * 64**2 + 64 * 256 + 2 * 48 * 64)
    assert whole.flops - plain.flops == again
    assert whole.peak < plain.peak


def test_keeping_products_recomputes_no_flop(plain: MeasuredStep, whole: MeasuredStep) -> None:
    found = run(lambda names: recompute.selective([recompute.PRODUCTS] * SIZES.layers, names))
    assert found.same_gradients(plain) and found.flops == plain.flops and found.moved > plain.moved
    # q, k, v; attention's output and logarithms; the projection's output; what up gives: 3 + 1 + 1 + 4 rows of width h.
    kept = SIZES.layers * (4 * 9 * ROW + 4 * SIZES.tokens * SIZES.heads)
    assert found.kept - whole.kept == kept


def test_every_plan_costs_what_it_says(plain: MeasuredStep, whole: MeasuredStep) -> None:
    measured = operators(MODEL, *BATCH)
    assert [one.name for one in measured if one.block == 1] == [
        "norm_1", "qkv", "attention", "projection", "residual_1", "norm_2", "up", "gelu",
    ]  # fmt: skip
    plans = frontier(measured)
    for one in plans[:: max(1, len(plans) // 6)]:
        found = run(lambda names, one=one: recompute.selective(one.names(SIZES.layers), names))
        assert found.same_gradients(plain)
        assert found.kept - whole.kept == one.bytes
        assert found.flops - plain.flops == one.flops


def test_blocks_may_keep_different_things(plain: MeasuredStep, whole: MeasuredStep) -> None:
    found = run(lambda names: recompute.selective([{"qkv"}, set(), {"up"}], names))
    assert found.same_gradients(plain) and found.kept - whole.kept == 4 * (3 + 4) * ROW


def test_names_follow_what_is_run_again_and_end_with_the_step() -> None:
    found = run(lambda names: recompute.whole)
    again = [call.module for call in found.calls[found.forward :] if call.module]
    blocks = [int(module.split(".")[1]) for module in again]
    assert sorted(set(blocks)) == [0, 1, 2] and all(a >= b for a, b in itertools.pairwise(blocks))
    names = Names(MODEL)
    with names:
        MODEL(*BATCH)
        assert names.current == names.path == ""
    with torch.no_grad():
        MODEL(*BATCH)
    assert names.path == ""


def test_the_host_takes_what_blocks_save_and_gives_it_back(plain: MeasuredStep) -> None:
    host = kept_as.Host()
    found = run(lambda names: kept_as.kept_as(host.form, names, ROW))
    assert found.same_gradients(plain)
    statistics = SIZES.tokens * (4 * 4 + 4 * SIZES.heads)
    assert host.bytes == SIZES.layers * (sum(layer_bytes(SIZES).values()) - statistics)
    assert plain.kept - found.kept == host.bytes and found.peak < plain.peak


@pytest.mark.parametrize("block", [None, 32])
def test_eight_bits_are_a_quarter_and_cost_a_few_per_cent_of_the_gradient(
    plain: MeasuredStep, block: int | None
) -> None:
    found = run(lambda names: kept_as.kept_as(kept_as.eight_bits(block), names, ROW))
    values = SIZES.layers * 16 * ROW
    scales = SIZES.layers * 9 if block is None else values // block  # nine storages a layer
    assert plain.kept - found.kept == pytest.approx(4 * values - values - 4 * scales, rel=0.002)
    assert found.loss == plain.loss
    errors = kept_as.errors(plain.gradients, found.gradients)
    # A value of three fraction bits is off by 1/16 of itself at most, 1/16/sqrt(3) on average where it is random.
    assert 0.005 < max(errors.values()) < 1 / 16
    assert errors["head.weight"] == 0


def test_only_what_is_asked_for_is_rounded(plain: MeasuredStep) -> None:
    form = kept_as.eight_bits(64)
    found = run(lambda names: kept_as.kept_as(form, names, ROW, {"down"}))
    errors = kept_as.errors(plain.gradients, found.gradients)
    # What `down` saves is the factor of its own weight's gradient, and of nothing else.
    assert {name.split(".")[-2] for name, error in errors.items() if error} == {"down"}


@pytest.mark.parametrize("block", [None, 8])
def test_rounding_to_eight_bits_is_that_of_the_format(block: int | None) -> None:
    """Against float64: scaled so that the largest is 448, values of e4m3 are multiples of 2^(e - 3), from 2^-6 up."""
    values = torch.randn(37, generator=torch.Generator().manual_seed(1)) * 3
    form = kept_as.eight_bits(block)
    back = form.decode(form.encode(values))
    exact = values.double()
    for start in range(0, 37, block or 37):
        part = slice(start, start + (block or 37))
        unit = exact[part].abs().max() / 448
        scaled = exact[part] / unit
        spacing = 2.0 ** (torch.log2(scaled.abs().clamp(min=2.0**-6)).floor() - 3)
        assert ((back[part].double() / unit - scaled).abs() <= spacing / 2 * (1 + 1e-5) + 1e-4 * spacing).all()


def test_zeros_stay_zeros() -> None:
    form = kept_as.eight_bits(16)
    assert not form.decode(form.encode(torch.zeros(40))).any()


@pytest.mark.parametrize("budget", [0.0, 0.4, 1.0])
@pytest.mark.slow
def test_the_partitioner_keeps_less_for_more_flop(plain: MeasuredStep, budget: float) -> None:
    found = partitioned(MODEL, *BATCH, budget)
    assert found.same_gradients(plain)
    assert found.kept <= (budget + 0.05) * plain.kept  # of its own count, which has the batch and no statistics
    assert (found.flops == plain.flops) is (budget == 1)


def test_a_budget_that_is_no_share_is_refused() -> None:
    with pytest.raises(ValueError, match="40 is not between 0 and 1"):
        partitioned(MODEL, *BATCH, 40)


def test_the_best_plan_of_a_budget_stays_within_it(plain: MeasuredStep, whole: MeasuredStep) -> None:
    room = (plain.kept - whole.kept) // 3
    best = plan(operators(MODEL, *BATCH), room)
    found = run(lambda names: recompute.selective(best.names(SIZES.layers), names))
    assert found.kept <= whole.kept + room and found.flops < whole.flops
