"""Chapter 14: its counts against formulas by hand, its records read in another way, and what its text says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from course.chapters import c14_memory_for_training as c14  # noqa: E402
from systems.training import gpt, recompute  # noqa: E402
from systems.training.operators import operators  # noqa: E402
from systems.training.planner import frontier, greedy, plan  # noqa: E402
from systems.training.step import step  # noqa: E402

RECORDS = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "checkpointing.json"


@pytest.fixture(scope="module")
def made() -> Iterator[dict[str, Any]]:
    """The small model, its steps and its operators."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model, batch = gpt.make(c14.SMALL), gpt.draw(c14.SMALL)
    kept = [recompute.PRODUCTS] * c14.SMALL.layers
    yield {
        "model": model,
        "batch": batch,
        "plain": step(model, *batch),
        "full": step(model, *batch, lambda names: recompute.whole),
        "products": step(model, *batch, lambda names: recompute.selective(kept, names)),
        "measured": operators(model, *batch),
    }
    torch.set_num_threads(threads)


def test_a_layer_keeps_32_bytes_per_unit_of_width() -> None:
    """16-bit values: norm and qkv 2 + 2, queries, keys and values 6, attention's output 2, and so on, by hand."""
    streams = 1 + 1 + 3 + 1 + 1 + 1 + 4 + 4  # norm, qkv, attention's three, its output, norm, up, GELU, down
    assert round(sum(c14.bytes_a_unit(c14.LARGE).values())) == 2 * streams == 32


def test_views_would_count_their_storage_three_times() -> None:
    """Six more of sixteen streams, of which a few numbers per token or head are the rest."""
    assert c14.views_too_large(c14.SMALL) == pytest.approx(100 * 6 / 16, rel=0.02)


def test_the_figures_of_checkpoints_are_those_of_the_text(made: dict[str, Any]) -> None:
    plain, full, products = made["plain"], made["full"], made["products"]
    assert 0.20 < full.flops / plain.flops - 1 < 0.25  # less than the textbook's third
    assert 100 * (full.flops / plain.flops - 1) == pytest.approx(c14.again(c14.SMALL))
    assert c14.share_inside(full, plain, c14.SMALL) == pytest.approx(100 / 16, abs=1)  # one stream of sixteen
    assert products.flops == plain.flops and 0.6 < products.kept / plain.kept < 0.7  # a third for no FLOP
    assert full.peak > 2 * full.kept  # the peak is what is kept and one block


def test_the_rule_computes_twice_as_much_where_room_is_short(made: dict[str, Any]) -> None:
    room = 0.95 * c14.room_for_no_flop(frontier(made["measured"]))
    assert greedy(made["measured"], room).flops == 2 * plan(made["measured"], room).flops


def test_offloading_hides_by_width_alone() -> None:
    """By hand: 989.4 TFLOP/s and 63 GB/s."""
    assert c14.least_width(c14.PCIE) == pytest.approx(4 * 989.4e12 / (3 * 63e9), rel=0.01)
    assert c14.hidden_share(12288, c14.PCIE) == 1 > c14.hidden_share(8192, c14.PCIE) > 0.7
    assert c14.hidden_share(2048, c14.C2C) == 1


def test_scales_matter_late_and_then_much() -> None:
    assert c14.error_of_others(1000, None) < 0.03 < 0.3 < c14.error_of_others(100_000, None)
    assert c14.error_of_others(100_000, 128) < 0.06 and c14.first_spoilt() == 100_000


def test_what_a_product_keeps_touches_its_own_weight_alone(made: dict[str, Any]) -> None:
    found = c14.touched(made["model"], made["batch"], c14.SMALL, made["plain"])
    layers = c14.SMALL.layers
    assert all(len(found[name]) == layers for name in ("qkv", "up", "down"))
    assert all(len(found[name]) > 2 * layers for name in ("norm_1", "attention", "norm_2", "gelu"))


def test_the_times_are_those_of_the_record() -> None:
    times = {
        one["variant"]: one["value"]
        for one in json.loads(RECORDS.read_text(encoding="utf-8"))["records"]
        if one["metric"] == "time"
    }
    assert c14.longer("full checkpoint") == pytest.approx(100 * (times["full checkpoint"] / times["plain"] - 1))
    assert 0 < c14.longer("plan for 50%") < 5  # as the prediction says
    assert c14.longer("full checkpoint") == pytest.approx(c14.again(c14.LARGE), abs=1)  # "within a percent of the step"


def test_a_large_vocabulary_costs_as_much_as_layers_do() -> None:
    (axes,) = c14.figure_of_operators().axes
    assert "128,256 words" in " ".join(label.get_text() for label in axes.get_yticklabels())
    few = c14.replace(c14.LARGE, layers=12, vocabulary=128_256)
    parts = c14.model_bytes(few)
    assert parts["loss"] > max(size for name, size in parts.items() if name != "loss")


@pytest.mark.parametrize(("h", "f"), [(16, 48), (64, 64)])
def test_a_gated_mlp_keeps_four_wide_tensors(h: int, f: int) -> None:
    assert c14.values_of_gated(h, f) == h + 4 * f
