"""Traffic counted by hand, what a step is made of, and the search."""

import random
from dataclasses import replace

import pytest

from systems.parallel import traffic
from systems.parallel.layout import DEEPSEEK_FP8, Axis, Job, Layout, Recompute, Schedule
from systems.parallel.machines import DGX_A100, DGX_H100, H800, MACHINES, NVL72
from systems.parallel.models import all_models, find_model
from systems.parallel.search import divisors, layouts, search
from systems.parallel.shapes import LayoutError, gpt
from systems.parallel.step import plan

GPT3, LLAMA = find_model("GPT-3 175B"), find_model("Llama 3 70B")
BATCH = Job(GPT3, 96, 2048)
MEGATRON = Layout(data=2, tensor=8, pipeline=12, zero=1)


def flow(job: Job, layout: Layout, axis: Axis, machine=DGX_A100) -> traffic.Flow:
    return next(one for one in plan(job, layout, machine).flows if one.axis is axis)


def test_tensor_traffic_is_four_all_reduces_a_layer() -> None:
    """Narayanan et al. 2021, section 3.2: 8 b s h (t - 1) / t values a layer and micro-batch: 8 layers, 48 of these."""
    values = 8 * 1 * 2048 * 12288 * 7 / 8
    found = flow(BATCH, MEGATRON, Axis.TENSOR)
    assert found.inside == pytest.approx(8 * 48 * values * 2) and found.across == 0


def test_pipeline_traffic_is_an_eighth_of_b_s_h_each_way() -> None:
    """The same section: b s h values a stage boundary; with tensor parallelism each GPU sends its share (4.1)."""
    found = flow(BATCH, MEGATRON, Axis.PIPELINE)
    assert found.across == pytest.approx(2 * 48 * 2 * 2048 * 12288 / 8)
    twice = replace(MEGATRON, chunks=2)
    assert flow(BATCH, twice, Axis.PIPELINE).across == pytest.approx(2 * found.across)


def test_data_traffic_is_gradients_once_and_weights_once() -> None:
    """By hand: GPUs of two nodes, half of 4 bytes of gradients out and half of 2 bytes of weights."""
    own = (12 * 96 * 12288**2 / 12 + 51200 * 12288) / 8
    assert flow(BATCH, MEGATRON, Axis.DATA).across == pytest.approx(own * (4 + 2) / 2)


@pytest.mark.parametrize(("zero", "times"), [(0, 2 * 4), (1, 4 + 2), (2, 4 + 2), (3, 4 + 2 * 2)])
def test_zero_3_moves_weights_twice(zero: int, times: float) -> None:
    """ZeRO paper, section 7: 2 P values up to stage 2, 3 P with stage 3; here gradients have 4 bytes, weights 2."""
    model = gpt("1B", 16, 2048, 16, 51200)
    job, layout = Job(model, 8, 1024), Layout(data=8, zero=zero)
    assert flow(job, layout, Axis.DATA).inside == pytest.approx(model.parameters * times * 7 / 8)


@pytest.mark.parametrize(("zero", "times"), [(0, 2 * 4), (1, 4 + 2), (2, 4 * 4 + 2), (3, 4 * (4 + 2 * 2))])
def test_sharded_gradients_and_weights_are_paid_for_in_every_micro_batch(zero: int, times: float) -> None:
    """Of four micro-batches, gradients of 4 bytes and weights of 2.

    ZeRO paper, section 7, for each micro-batch: a reduce-scatter of gradients, since with ZeRO-2 no GPU holds all of
    them (DeepSpeed, pull request 338), and with ZeRO-3 two gathers of weights. With ZeRO-1 gradients add up locally.
    """
    model = gpt("1B", 16, 2048, 16, 51200)
    layout = Layout(data=8, zero=zero)
    assert flow(Job(model, 32, 1024), layout, Axis.DATA).inside == pytest.approx(model.parameters * times * 7 / 8)


def test_zero_2_is_never_faster_than_zero_1() -> None:
    """It moves more and computes as much; what it saves is memory."""
    model = gpt("1B", 16, 2048, 16, 51200)
    for machine in (DGX_H100, H800):
        for batch in (16, 64, 256):
            one, two = (plan(Job(model, batch, 1024), Layout(data=16, zero=zero), machine) for zero in (1, 2))
            assert two.seconds >= one.seconds and two.memory.total < one.memory.total


def test_a_token_crosses_to_four_nodes_at_most() -> None:
    """DeepSeek-V3, section 3.2.2: at most 4 nodes, one of 8 its own; 1 byte there, 2 back, forward and backward."""
    model = find_model("DeepSeek-V3")
    job, layout = Job(model, 15360, 4096, DEEPSEEK_FP8), Layout(data=128, pipeline=16, expert=64)
    tokens = 120 * 4096
    layers = 4 * 58 / 61  # of a stage's four
    expected = 2 * layers * tokens * 7168 * 3 * 4 * 7 / 8
    assert flow(job, layout, Axis.EXPERT, H800).across == pytest.approx(expected)
    inside = flow(job, layout, Axis.EXPERT, H800).inside
    assert inside == pytest.approx(2 * layers * tokens * 7168 * 3 * 8 * 63 / 64)


def test_experts_within_a_node_need_no_network() -> None:
    model = find_model("DeepSeek-V3")
    job, layout = Job(model, 2048, 4096, DEEPSEEK_FP8), Layout(data=64, pipeline=16, expert=64)
    assert flow(job, layout, Axis.EXPERT, NVL72).across == 0
    assert flow(job, layout, Axis.EXPERT, H800).across > 0


def test_context_traffic_is_keys_and_values_three_times() -> None:
    """By hand: 15/16 of 2 x 8 x 128 values of 131,072 tokens, an eighth of them a GPU, 80 layers, three times."""
    job = Job(LLAMA, 1, 131072)
    found = flow(job, Layout(tensor=8, context=16), Axis.CONTEXT, DGX_H100)
    assert found.across == pytest.approx(3 * 80 * 2 * 131072 * 2048 / 8 * 15 / 16)


def test_a_group_lies_where_rank_order_puts_it() -> None:
    assert traffic.group(8, 1, DGX_H100) == traffic.Group(8, 1)
    assert traffic.group(16, 4, DGX_H100) == traffic.Group(2, 8)
    assert traffic.group(16, 8, DGX_H100) == traffic.Group(1, 16)
    assert traffic.group(3, 2, DGX_H100) == traffic.Group(3, 1)
    assert traffic.group(9, 1, DGX_H100).size == 9


def test_the_parts_are_the_step() -> None:
    step = plan(BATCH, MEGATRON, DGX_A100)
    assert sum(step.parts.values()) == pytest.approx(step.seconds)
    assert 0 < step.utilisation < 1
    assert step.tokens_a_second == pytest.approx(96 * 2048 / step.seconds / 192)


def test_one_gpu_with_nothing_in_its_way_takes_its_flop() -> None:
    """By hand, flash attention's products apart: a wide model's step is 6 P T FLOP at the given share."""
    model = gpt("wide", 4, 16384, 128, 1024)
    step = plan(Job(model, 4, 128), Layout(micro_batch=4), DGX_H100, 0.5)
    exact = 6 * model.active_parameters * 512 / (0.5 * 989.4e12)
    assert step.products == pytest.approx(exact, rel=0.01)
    assert step.bubble == 0 and not any(step.exposed.values())


def test_recomputing_layers_costs_a_third() -> None:
    step = plan(BATCH, replace(MEGATRON, recompute=Recompute.FULL, flash=False), DGX_A100)
    plain = plan(BATCH, replace(MEGATRON, flash=False), DGX_A100)
    assert step.recomputed / (plain.products + plain.hbm) == pytest.approx(1 / 3, abs=0.02)  # no logits
    assert step.memory.activations < 0.2 * plain.memory.activations


def test_overlap_hides_traffic_until_there_is_more_of_it_than_work() -> None:
    hidden = plan(BATCH, MEGATRON, DGX_A100)
    shown = plan(BATCH, replace(MEGATRON, overlapped=frozenset()), DGX_A100)
    assert hidden.exposed[Axis.TENSOR] == 0 and shown.exposed[Axis.TENSOR] > 0
    slow = replace(DGX_A100, inside=DGX_A100.inside / 100)
    assert plan(BATCH, MEGATRON, slow).exposed[Axis.TENSOR] > 0


def test_more_chunks_wait_less() -> None:
    few, many = (plan(BATCH, replace(MEGATRON, chunks=chunks), DGX_A100) for chunks in (1, 4))
    assert many.bubble == pytest.approx(few.bubble / 4)
    assert many.memory.activations > few.memory.activations


def test_bounds_have_names() -> None:
    assert plan(Job(GPT3, 1536, 2048), MEGATRON, DGX_A100).bound == "compute"
    one = plan(Job(GPT3, 2, 2048), MEGATRON, DGX_A100)
    assert one.bound == "bubble" and one.bubble > one.products


@pytest.mark.parametrize(
    ("layout", "sentence"),
    [
        (Layout(data=5), "cannot be cut into micro-batches"),
        (Layout(tensor=7), "cannot be shared by 7"),
        (Layout(pipeline=128), "cannot fill 128 stages"),
        (Layout(context=3), "into two pieces for each of 3"),
        (Layout(expert=2, data=2), "no experts to share"),
        (Layout(pipeline=2, chunks=2, schedule=Schedule.GPIPE), "Only 1f1b is interleaved"),
        (Layout(pipeline=3, schedule=Schedule.DUALPIPE), "even number of stages"),
        (Layout(zero=4), "stages 0 to 3"),
        (Layout(data=0), "1 or more"),
    ],
)
def test_layouts_that_cannot_be_are_refused_in_a_sentence(layout: Layout, sentence: str) -> None:
    with pytest.raises(LayoutError, match=sentence):
        plan(BATCH, layout, DGX_A100)


def test_the_search_finds_what_is_at_least_as_good_as_any_layout_that_it_has() -> None:
    job = Job(LLAMA, 512, 8192)
    found = search(job, DGX_H100, 512)
    assert all(a.seconds <= b.seconds for a, b in zip(found, found[1:], strict=False))
    assert all(one.fits and one.layout.gpus == 512 for one in found)
    by_hand = plan(job, Layout(data=16, tensor=8, pipeline=4, chunks=16), DGX_H100)
    assert by_hand.fits and found[0].seconds <= by_hand.seconds
    assert any(one.layout == by_hand.layout for one in found)


def test_the_search_says_what_would_be_needed() -> None:
    with pytest.raises(LayoutError, match="No layout of 8 GPUs fits: the smallest needs"):
        search(Job(GPT3, 8, 2048), DGX_H100, 8)
    with pytest.raises(LayoutError, match="can run 1 sequences"):
        search(Job(gpt("odd", 2, 64, 1, 100), 1, 1023), DGX_H100, 7)


def test_experts_are_shared_out_in_the_search() -> None:
    model = find_model("DeepSeek-V3")
    job = Job(model, 256, 4096)
    widest = max(layout.expert for layout in layouts(job, DGX_H100, 128) if layout.pipeline == 2)
    assert widest == 64 and divisors(12) == [1, 2, 3, 4, 6, 12]


def test_any_layout_has_a_plan_or_a_sentence() -> None:
    """Sliders and searches ask for all sorts of layouts: nothing else than LayoutError may come of one."""
    drawn, planned = random.Random(13), 0
    for _ in range(6000):
        job = Job(drawn.choice(all_models()), drawn.choice([1, 8, 512, 15360]), drawn.choice([128, 4096, 131072]))
        sizes = {name: 2 ** drawn.randint(0, 5) for name in ("tensor", "pipeline", "context", "micro_batch", "chunks")}
        layout = Layout(
            data=2 ** drawn.randint(0, 10), expert=2 ** drawn.randint(0, 6), zero=drawn.randint(0, 3), **sizes,
            schedule=drawn.choice(list(Schedule)), recompute=drawn.choice(list(Recompute)), flash=drawn.random() < 0.5,
            sequence=drawn.random() < 0.5, overlapped=frozenset(axis for axis in Axis if drawn.random() < 0.5),
        )  # fmt: skip
        try:
            step = plan(job, layout, drawn.choice(list(MACHINES.values())))
        except LayoutError as error:
            assert str(error).endswith(".")
            continue
        planned += 1
        assert step.seconds > 0 and min(step.parts.values()) >= 0 and step.memory.total > 0
        assert sum(step.parts.values()) == pytest.approx(step.seconds)
    assert planned > 50
