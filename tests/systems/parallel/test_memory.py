"""Memory against the worked figures of the ZeRO paper, Megatron-LM's estimator and Korthikanti et al."""

from dataclasses import replace

import pytest

from systems.parallel.layout import MEGATRON, MIXED, Job, Layout, Recompute, Schedule
from systems.parallel.memory import activations, layer_activations, memory, shard
from systems.parallel.models import find_model
from systems.parallel.shapes import gpt

GPT3 = find_model("GPT-3 175B")
MTNLG = find_model("MT-NLG 530B")


@pytest.mark.parametrize(("zero", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.88)])
def test_zero_on_64_gpus_is_figure_1_of_its_paper(zero: int, gigabytes: float) -> None:
    """Rajbhandari et al. 2020, figure 1: 7.5 B parameters, 64 GPUs, Adam in mixed precision (1.9 GB there)."""
    model = gpt("7.5B", 36, 4096, 32, 51200)
    job, layout = Job(model, 64, 1024, MIXED), Layout(data=64, zero=zero)
    found = memory(job, layout)
    states = (found.weights + found.gradients + found.optimizer) * 7.5e9 / model.parameters
    assert states / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_megatrons_18_bytes_and_6_with_a_distributed_optimizer() -> None:
    """theoretical_memory_usage.py of Megatron-LM: 18 bytes a parameter, or 6 + 12 / data."""
    job = Job(GPT3, 64, 2048, MEGATRON)
    for zero, each in ((0, 18), (1, 6 + 12 / 16)):
        layout = Layout(data=16, tensor=8, pipeline=8, zero=zero, micro_batch=1)
        found, own = memory(replace(job, batch=64), layout), shard(GPT3, layout).total
        assert found.total - found.activations == pytest.approx(each * own)
        assert own == pytest.approx((12 * 96 * 12288**2 / 8 + 51200 * 12288) / 8)


@pytest.mark.parametrize(
    ("tensor", "sequence", "recompute", "factor"),
    [
        (1, True, Recompute.NONE, lambda a, s, h, t: 34 + 5 * a * s / h),
        (8, False, Recompute.NONE, lambda a, s, h, t: 10 + 24 / t + 5 * a * s / (h * t)),
        (8, True, Recompute.NONE, lambda a, s, h, t: 34 / t + 5 * a * s / (h * t)),
        (8, False, Recompute.SELECTIVE, lambda a, s, h, t: 10 + 24 / t),
        (8, True, Recompute.SELECTIVE, lambda a, s, h, t: 34 / t),
        (8, True, Recompute.FULL, lambda a, s, h, t: 2),
    ],
)
def test_a_layers_activations_are_table_2_of_korthikanti(tensor, sequence, recompute, factor) -> None:
    job = Job(GPT3, 8, 2048)
    layout = Layout(tensor=tensor, sequence=sequence, recompute=recompute, flash=False)
    sbh = 2048 * 12288
    assert layer_activations(job, layout) == pytest.approx(sbh * factor(96, 2048, 12288, tensor))


@pytest.mark.parametrize(("model", "saved"), [(GPT3, 0.70), (MTNLG, 0.65)])
def test_selective_recomputation_saves_what_section_5_says(model, saved: float) -> None:
    job = Job(model, 8, 2048)
    layout = Layout(tensor=8, flash=False)
    kept = layer_activations(job, replace(layout, recompute=Recompute.SELECTIVE)) / layer_activations(job, layout)
    assert 1 - kept == pytest.approx(saved, abs=0.005)


def test_the_first_stage_holds_all_layers_whatever_the_depth() -> None:
    """Section 4.2.3: p micro-batches of L / p layers are L layers; interleaved, (1 + (p - 1) / (p v)) as many."""
    job, layer = Job(GPT3, 64, 2048), Layout(tensor=8)
    for stages in (2, 8, 32):
        layout = replace(layer, pipeline=stages)
        assert activations(job, layout) == pytest.approx(96 * layer_activations(job, layout))
    twice = replace(layer, pipeline=8, chunks=3)
    assert activations(job, twice) == pytest.approx(96 * layer_activations(job, twice) * (1 + 7 / 24))


def test_experts_are_sharded_over_fewer_replicas() -> None:
    """By hand: 256 experts over 64 GPUs leave 4 a layer; their optimizer is shared by 128 / 64 = 2 GPUs, not 128."""
    model = find_model("DeepSeek-V3")
    layout = Layout(data=128, pipeline=16, expert=64)
    own = shard(model, layout)
    assert own.experts == pytest.approx(58 / 16 * 4 * 3 * 7168 * 2048)
    found = memory(Job(model, 15360, 4096, MEGATRON), layout)
    assert found.optimizer == pytest.approx(12 * (own.common / 128 + own.experts / 2))
    assert found.weights == pytest.approx(2 * own.total)


def test_dualpipe_holds_two_stages() -> None:
    model = find_model("DeepSeek-V3")
    one = Layout(data=128, pipeline=16, expert=64)
    two = replace(one, schedule=Schedule.DUALPIPE)
    job = Job(model, 15360, 4096)
    tables = model.embedding_parameters
    assert shard(model, two).total - tables == pytest.approx(2 * (shard(model, one).total - tables))
    assert memory(job, two).activations == pytest.approx(17 / 16 * memory(job, one).activations)


def test_latent_attention_keeps_latents() -> None:
    """DeepSeek-V3 makes queries, keys and values again: what a layer keeps of them is 1536 + 512 + 64 values."""
    model = find_model("DeepSeek-V3")
    plain = replace(model, latent=None, kv_heads=128, head_width=192)
    job, layout = Job(model, 1, 4096), Layout()
    less = layer_activations(replace(job, model=plain), layout) - layer_activations(job, layout)
    assert less == pytest.approx(4096 * 2 * (128 * 192 * 4 - (1536 + 512 + 64) - 128 * 128))


def test_context_parallelism_divides_activations() -> None:
    job = Job(find_model("Llama 3 405B"), 8, 131072)
    one = Layout(tensor=8, pipeline=2)
    assert activations(job, replace(one, context=16)) == pytest.approx(activations(job, one) / 16)
