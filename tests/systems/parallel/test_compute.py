"""Work and bytes of a layer against its products written out one by one."""

from dataclasses import replace

import pytest

from systems.parallel.calibration import ATTENTION
from systems.parallel.compute import operands, slowest
from systems.parallel.layout import MEGATRON_FP8, Job, Layout, Recompute
from systems.parallel.machines import DGX_A100, DGX_H100
from systems.parallel.memory import made
from systems.parallel.models import find_model
from systems.parallel.shapes import gpt
from warplab.hardware.records import Math

Product = tuple[float, float, float]  # rows, inner, columns


def gpt_products(tokens: int, h: int, t: int) -> list[Product]:
    """Queries, keys and values; projection; two of the MLP: by columns, rows, columns, rows."""
    return [(tokens, h, 3 * h / t), (tokens, h / t, h), (tokens, h, 4 * h / t), (tokens, 4 * h / t, h)]


def moved(products: list[Product]) -> float:
    return sum(2 * (m * k + k * n + m * n) for m, k, n in products)


@pytest.mark.parametrize("tensor", [1, 4])
def test_a_layers_products_read_and_write_what_they_have_to(tensor: int) -> None:
    job = Job(gpt("x", 4, 2048, 16, 1000), 1, 512)
    layout = Layout(tensor=tensor)
    assert operands(job, layout, experts=False) == pytest.approx(moved(gpt_products(512, 2048, tensor)))


def test_experts_read_their_weights_once_and_tokens_eight_times() -> None:
    """Of one GPU with a 64th of 256 experts: all but its weights is what nine products a token would move."""
    model = find_model("DeepSeek-V3")
    job = Job(model, 64, 4096)
    few, many = (
        operands(replace(job, sequence=length), Layout(expert=64, data=64), experts=True) for length in (2048, 4096)
    )
    mlp = sum(2 * 2048 * 9 * rows for rows in (7168, 2048, 2048, 2048, 7168))  # gate and up read their input together
    attention = 2 * 2048 * (2 * 7168 + model.query_width + model.key_value_width + model.value_width)
    assert many - few == pytest.approx(mlp + attention)
    weights = 4 * 3 * 7168 * 2048 + 3 * 7168 * 2048 + model.attention_parameters
    assert 2 * few - many == pytest.approx(2 * weights)


@pytest.mark.parametrize("tensor", [1, 8])
def test_what_a_layer_makes_is_korthikantis_count_whatever_is_kept(tensor: int) -> None:
    """s b h (34 + 5 a s / h) / t with sequence parallelism: section 4.2.2 of arXiv:2205.05198."""
    job = Job(find_model("GPT-3 175B"), 8, 2048)
    for recompute in Recompute:
        layout = Layout(tensor=tensor, flash=False, recompute=recompute)
        assert made(job, layout) == pytest.approx(12288 * (34 + 5 * 96 * 2048 / 12288) / tensor)


def test_seconds_of_a_stage_are_its_flop_at_the_rate() -> None:
    """By hand: 24 b s h^2 forward a layer, twice that backward; attention: 2 products and 5."""
    h, s, layers = 4096, 2048, 8
    stage = slowest(Job(gpt("x", layers, h, 32, 8), 1, s), Layout(), DGX_A100, 0.5)
    peak = DGX_A100.peak(Math.BF16_TENSOR)
    linear, scores = layers * 24 * s * h * h, layers * 4 * s * s * h / 2
    expected = 3 * linear / (0.5 * peak) + 3.5 * scores / (ATTENTION["ampere"] * peak)
    assert stage.products == pytest.approx(expected, rel=1e-3)
    assert stage.seconds == pytest.approx(stage.products + stage.bytes)
    assert stage.weights == pytest.approx(linear / (0.5 * peak))


def test_fp8_speeds_up_products_but_not_attention() -> None:
    job = Job(find_model("Llama 3 8B"), 1, 8192)
    two, one = (slowest(replace(job, precision=p), Layout(), DGX_H100, 0.5) for p in (job.precision, MEGATRON_FP8))
    attention = two.products - 2 * (two.products - one.products)  # all that is not halved
    assert 0 < attention < 0.5 * two.products
    assert two.weights == pytest.approx(2 * one.weights, rel=1e-3)
    assert one.bytes == two.bytes


def test_the_last_stage_sets_the_pace_if_its_logits_are_large() -> None:
    wide, narrow = (
        slowest(Job(gpt("x", 8, 1024, 8, v), 2, 512), Layout(pipeline=4), DGX_H100, 0.5) for v in (400_000, 8)
    )
    logits = 2 * 512 * 1024 * 400_000 / (0.5 * DGX_H100.peak(Math.BF16_TENSOR))
    assert wide.forward - narrow.forward == pytest.approx(logits, rel=1e-3)
    assert wide.layers == narrow.layers == 2


def test_uneven_layers_leave_room_for_the_logits() -> None:
    """Llama 3 405B: 126 layers over 16 stages are 8 each and 6 on the last, which has the logits besides."""
    job = Job(find_model("Llama 3 405B"), 16, 8192)
    stage = slowest(job, Layout(tensor=8, pipeline=16), DGX_H100, 0.5)
    less = slowest(replace(job, model=replace(job.model, vocabulary=8)), Layout(tensor=8, pipeline=16), DGX_H100, 0.5)
    assert stage.layers == 8 and stage.forward == pytest.approx(less.forward)
