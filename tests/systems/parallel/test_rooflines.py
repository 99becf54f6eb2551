"""The worked problems of How to Scale Your Model, chapter 12, each by one call; where it errs, what is right."""

import pytest

from systems.network.collectives import Collective
from systems.parallel.layout import Layout
from systems.parallel.machines import DGX_B200, DGX_H100, H800
from systems.parallel.models import find_model
from systems.parallel.rooflines import (
    context_tokens,
    data_tokens,
    expert_width,
    intensity,
    least_gpus,
    tensor_limit,
    training_days,
)
from systems.parallel.shapes import LayoutError
from systems.parallel.traffic import collective, group

LLAMA = find_model("Llama 3 70B")


@pytest.mark.parametrize(
    ("layout", "book"),
    [
        (Layout(data=8), 2200 * 7 / 8),  # the book drops (n - 1) / n
        (Layout(data=8192), 2475),
        (Layout(data=512, tensor=8), 2475),  # Question 2, part 3.2: eight ways inside of a node change nothing
        (Layout(data=64, tensor=8, pipeline=8), 309),  # part 3.3
        (Layout(data=48, tensor=4), 2475 * 23 / 24),  # Question 3: 16B
        (Layout(data=48, tensor=8, pipeline=2), 2475 / 2),  # 70B, "roughly 1k"
        (Layout(data=48, tensor=8, pipeline=8), 300),  # 314B
    ],
)
def test_tokens_a_gpu_that_hide_gradients(layout: Layout, book: float) -> None:
    assert data_tokens(DGX_H100, layout) == pytest.approx(book, rel=0.025)


def test_two_nodes_are_bound_inside_of_them() -> None:
    """The section on data parallelism has 1,237 tokens for two nodes; Quiz 4, question 5, has the right level."""
    assert data_tokens(DGX_H100, Layout(data=16)) == pytest.approx(989.4e12 * 7 / 8 / 450e9)
    near = collective(Collective.ALL_GATHER, 1e9, group(8, 1, DGX_H100), DGX_H100, 1.0)[2]
    assert near == pytest.approx(1e9 / 514e9, rel=0.001)


def test_sparse_models_need_more_tokens() -> None:
    """128 experts, 4 active: 32 x 2,475 = 79,200."""
    assert data_tokens(DGX_H100, Layout(data=8192), sparsity=128 / 4) == pytest.approx(79_200, rel=0.005)


def test_b200_needs_twice_the_tokens_between_nodes() -> None:
    """Question 1: 2,500 in a node, 5,625 beyond."""
    assert intensity(DGX_B200, DGX_B200.inside) == pytest.approx(2500)
    assert data_tokens(DGX_B200, Layout(data=2**17)) == pytest.approx(5625, rel=1e-3)


def test_h800_is_what_deepseek_says_it_is() -> None:
    """160 GB/s over NVLink (DeepSeek-V3, section 3.2.2); the book has 300."""
    assert intensity(H800, H800.inside) == pytest.approx(989.4e12 / 160e9)


def test_tensor_parallelism_of_llama_70b() -> None:
    """Question 2, part 3: F / 2200 = 13; the book's text writes F / 1995 = 14.4 there and F / 2200 elsewhere."""
    assert tensor_limit(DGX_H100, 28672, matrices=2) == pytest.approx(28672 / 2200, rel=0.002)
    assert tensor_limit(DGX_H100, 28672, matrices=2, across=True) == pytest.approx(28672 / 2475, rel=0.002)


def test_a_gated_mlp_hides_more_traffic() -> None:
    """By hand, three matrices: forward 6 T d f / t FLOP beside 4 T d bytes; the book's problems have two matrices."""
    assert LLAMA.matrices == 3 and find_model("GPT-3 175B").matrices == 2
    tokens, width, ffn = 4096, LLAMA.hidden, LLAMA.ffn
    gpus = tensor_limit(DGX_H100, ffn, matrices=LLAMA.matrices)
    assert 6 * tokens * width * ffn / gpus / 989.4e12 == pytest.approx(4 * tokens * width / 450e9)
    least = expert_width(H800, 256, 8, 64, matrices=find_model("DeepSeek-V3").matrices)
    visited = 8 * (1 - (7 / 8) ** 8) * 7 / 8
    assert 6 * tokens * 8 * width * least / 989.4e12 == pytest.approx(2 * 2 * tokens * width * visited / 50e9)


def test_smallest_number_of_gpus_and_days() -> None:
    """Question 2, parts 1 and 2: 9 GPUs, 40 days. The book's FLOP are without attention, which adds a seventh."""
    assert least_gpus(LLAMA, DGX_H100, 10) == 9
    days = training_days(LLAMA, 15e12, 8192, DGX_H100, 4096, 0.45)
    attention = LLAMA.step_flops(1, 8192) / (6 * LLAMA.active_parameters)
    assert days / attention == pytest.approx(40, rel=0.02)
    assert attention == pytest.approx(1.15, abs=0.01)


def test_experts_across_nodes_need_to_be_wide() -> None:
    """By hand: of 8 nodes 8 experts lie on 8 (1 - (7/8)^8) = 5.25, an eighth of them at home."""
    nodes = 8 * (1 - (7 / 8) ** 8)
    assert expert_width(DGX_H100, 256, 8, 64, matrices=2) == pytest.approx(nodes * 7 / 8 / 8 * 989.4e12 / 50e9)
    assert expert_width(DGX_H100, 256, 8, 8, matrices=2) == pytest.approx(7 / 8 * 989.4e12 / 450e9)
    handed_on = 15 / 16 * 989.4e12 / 160e9  # two nodes of H800: NVLink is the slower one
    assert expert_width(H800, 256, 8, 16, matrices=2) == pytest.approx(handed_on)
    with pytest.raises(LayoutError, match="cannot be shared by 3"):
        expert_width(DGX_H100, 256, 8, 3, matrices=2)


def test_grouped_queries_make_context_parallelism_cheap() -> None:
    """By hand for 64 heads of 128 with 8 keys and 8 values: 2 x 2048 / 16384 of C / W."""
    assert context_tokens(DGX_H100, LLAMA, across=False) == pytest.approx(2 * 2048 / 16384 * 989.4e12 / 450e9)
    assert context_tokens(DGX_H100, find_model("GPT-3 175B"), across=True) == pytest.approx(2 * 989.4e12 / 50e9)
