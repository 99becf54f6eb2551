"""All-reduces by hand on the emulator, blocks as ranks: right sums, no races, any order; and what happens without them.

Truth is NumPy's: exact sums of small whole numbers, float64 for others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from systems.peer.kernels import KINDS, Layout
from tests.peer.in_memory import read, stored
from tests.peer.side_by_side import SMALL, run
from tests.sampling import only_whole
from warplab.plan.execution import Execution
from warplab.plan.model import Role

pytestmark = pytest.mark.processes

ROUNDING = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
KERNELS = ("one_shots", "two_shots", "two_shots_ll")  # in the order in which their calls are counted
WHOLE = [("one_shots", "float32"), ("one_shots", "bfloat16"), ("two_shots", "float32"), ("two_shots", "float16"),
         ("two_shots_ll", "float32"), ("two_shots_ll", "bfloat16")]  # fmt: skip


def inputs(dtype: str, ranks: int, count: int, calls: int, whole: bool) -> np.ndarray:
    """(calls, ranks, count rounded up) numbers of a dtype."""
    draw = np.random.default_rng(count + ranks)
    shape = (calls, ranks, -(-count // 8) * 8)
    return stored(draw.integers(-8, 9, shape).astype(np.float64) if whole else draw.standard_normal(shape), dtype)


def reduced(kernel: str, dtype: str, x: np.ndarray, count: int, **options: Any) -> Execution:
    """One launch with a call for each entry of x."""
    calls, ranks, apart = x.shape
    layout = options.pop("layout", Layout(ranks, **SMALL))
    arrays = {"x": (x, Role.INPUT), "out": (np.zeros_like(x), Role.OUTPUT)}
    numbers = (np.uint32(count), np.uint32(apart))
    return run(kernel, dtype, layout, arrays, numbers, calls=calls, **options)


def results(execution: Execution, x: np.ndarray, dtype: str, count: int) -> np.ndarray:
    return read(execution.outputs["out"].reshape(x.shape)[:, :, :count], dtype)


def faults_of(execution: Execution, kernel: str) -> np.ndarray:
    """(ranks, blocks): 1 + the rank that a block missed, or 0; of blocks that count calls of this kernel."""
    return execution.outputs["state"].reshape(-1, KINDS, SMALL["blocks"], 2)[:, KERNELS.index(kernel), :, 1]


def is_sum(execution: Execution, x: np.ndarray, dtype: str, count: int) -> bool:
    """Whether every rank has the exact sum of whole numbers in every call."""
    truth = read(x, dtype)[:, :, :count].sum(1, keepdims=True)
    return bool((results(execution, x, dtype, count) == truth).all())


ORDERS = [(2, None), pytest.param(2, 1, marks=only_whole), pytest.param(4, 2, marks=only_whole), (8, 3)]


@pytest.mark.parametrize(("ranks", "seed"), ORDERS)
@pytest.mark.parametrize(("kernel", "dtype"), WHOLE)
def test_every_rank_has_the_exact_sum_in_every_call(kernel: str, dtype: str, ranks: int, seed: int | None) -> None:
    """Five calls use each set of lines more than once; 37 numbers fill no line, unit or share."""
    x = inputs(dtype, ranks, 37, 5, whole=True)
    execution = reduced(kernel, dtype, x, 37, seed=seed)
    assert execution.findings == () and not any(name.startswith("races") for name in execution.notes), (
        "all of it is searched for races"
    )
    assert is_sum(execution, x, dtype, 37)


@pytest.mark.parametrize(
    ("kernel", "count"),
    [(kernel, count) for kernel in KERNELS for count in (1, 3, 190, 384 if kernel == "one_shots" else 768)],
)
def test_ragged_lengths(kernel: str, count: int) -> None:
    """From one number, which leaves blocks and shares empty, to as many as the memory has room for."""
    x = inputs("float32", 2, count, 3, whole=True)
    execution = reduced(kernel, "float32", x, count)
    assert execution.findings == ()
    assert is_sum(execution, x, "float32", count)
    after = execution.outputs["out"].reshape(x.shape)[:, :, count:]
    assert not (after == x.sum(1, keepdims=True)[:, :, count:]).any(), "nothing is written behind the end"


@pytest.mark.parametrize(("kernel", "dtype"), WHOLE)
def test_random_numbers_are_rounded_as_little_as_may_be_and_alike_on_all_ranks(kernel: str, dtype: str) -> None:
    x = inputs(dtype, 4, 61, 2, whole=False)
    found = results(reduced(kernel, dtype, x, 61, seed=1), x, dtype, 61)
    parts = read(x, dtype)[:, :, :61]
    truth = parts.sum(1, keepdims=True)
    allowed = 3 * 2.0**-24 * np.abs(parts).sum(1, keepdims=True) + ROUNDING[dtype] * np.abs(truth)
    assert (np.abs(found - truth) <= 1.01 * allowed).all()
    assert (found == found[:, :1]).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_launches_go_on_counting_where_the_last_one_stopped(kernel: str) -> None:
    """As a graph's do: no argument changes. Then a launch of fewer blocks, whose others have counted less."""
    x = inputs("float32", 2, 61, 1, whole=True)
    first = reduced(kernel, "float32", x, 61, launches=3)
    assert first.findings == () and is_sum(first, x, "float32", 61)
    second = reduced(kernel, "float32", x, 61, launched=1, before=first)
    third = reduced(kernel, "float32", x, 61, before=second)
    assert second.findings == third.findings == ()
    assert is_sum(second, x, "float32", 61) and is_sum(third, x, "float32", 61)
    counted = third.outputs["state"].reshape(2, KINDS, 2, 2)[:, :, :, 0]
    assert counted[:, KERNELS.index(kernel)].tolist() == [[5, 4], [5, 4]] and counted.sum() == 18


@pytest.mark.parametrize("kernel", KERNELS)
def test_calls_are_counted_past_the_last_number(kernel: str) -> None:
    """After 2^32 - 1, an odd call, comes 2: 0 is what fresh memory holds, and sets take turns."""
    x = inputs("float32", 2, 61, 5, whole=True)
    before = reduced(kernel, "float32", x, 61)
    before.outputs["state"].reshape(-1, 2)[:, 0] = 2**32 - 3
    execution = reduced(kernel, "float32", x, 61, before=before, seed=2)
    assert execution.findings == () and is_sum(execution, x, "float32", 61)
    assert 4 in execution.outputs["state"]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_fused_with_residual_and_norm(dtype: str, ranks: int) -> None:
    """Five rows on two blocks; rows of 96 numbers."""
    rows, width, calls, epsilon = 5, 96, 3, 1e-3
    draw = np.random.default_rng(ranks)
    x, residual, weight = (
        stored(draw.standard_normal(shape), dtype) for shape in ((calls, ranks, rows, width), (rows, width), (width,))
    )
    arrays = {"x": (x, Role.INPUT), "residual": (residual, Role.INPUT), "weight": (weight, Role.INPUT)}
    arrays |= {name: (np.zeros_like(x), Role.OUTPUT) for name in ("hidden", "out")}
    numbers = (np.uint32(rows), np.uint32(width), np.float32(epsilon))
    layout = Layout(ranks, 2, 3 * 48, 48)
    execution = run("fused_calls", dtype, layout, arrays, numbers, calls=calls, threads=32, seed=ranks)
    assert execution.findings == () and not any(name.startswith("races") for name in execution.notes)
    parts = read(x, dtype)
    total = parts.sum(1, keepdims=True) + read(residual, dtype)
    scale = 1 / np.sqrt((total**2).mean(-1, keepdims=True) + epsilon)
    added = ranks * 2.0**-24 * (np.abs(parts).sum(1, keepdims=True) + np.abs(read(residual, dtype)))
    rounded = ROUNDING[dtype]
    for name, truth, allowed in (
        ("hidden", total, added + rounded * np.abs(total)),
        ("out", total * scale * read(weight, dtype),
         added * scale * np.abs(read(weight, dtype)) + (rounded + 1e-5) * np.abs(total * scale * read(weight, dtype))),
    ):  # fmt: skip
        found = read(execution.outputs[name].reshape(x.shape), dtype)
        assert (np.abs(found - truth) <= 1.01 * allowed).all(), name


def one_set(text: str) -> str:
    """All calls use one set of lines."""
    assert "flag & 1 ? ODD : EVEN" in text
    return text.replace("flag & 1 ? ODD : EVEN", "EVEN")


def flag_by_itself(text: str) -> str:
    """Data by an ordinary store and the flag by another one behind it, with no fence between."""
    begin, end = text.index("__device__ void send("), text.index("// EVEN and ODD calls")
    return text[:begin] + (
        """
__device__ void send(char* line, u64 data, u32 flag) {
    *(u64*)line = data;
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" :: "l"(line + 8), "r"(flag) : "memory");
}

__device__ bool arrived(const char* line, u32 flag, u64& data) {
    u32 seen;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(line + 8) : "memory");
    data = seen == flag ? *(const u64*)line : 0;
    return seen == flag;
}

"""
        + text[end:]
    )


def no_release(text: str) -> str:
    """The two-shot's flag does not wait for the data."""
    assert text.count("st.release.sys") == 1
    return text.replace("st.release.sys", "st.relaxed.sys")


def one_wait(text: str) -> str:
    """The two-shot does not wait for the others' sums."""
    assert text.count("exchange<RANKS>(team, state, block, SUMS, flag);") == 1
    return text.replace("exchange<RANKS>(team, state, block, SUMS, flag);", "__syncthreads();")


def same_lines(text: str) -> str:
    """The LL two-shot's sums lie where its parts do."""
    assert text.count("TOTALS, block") == 2
    return text.replace("TOTALS, block", "PARTS, block")


def sum_sent_too_early(text: str) -> str:
    """The LL two-shot sends on what is there before it has received and added the rest."""
    send = "        send_to_all<RANKS>(team, TOTALS, block, k, result, flag);\n"
    wait = "        if (!receive<RANKS>(team, state, PARTS, block, k, flag, data)) {\n"
    assert text.count(send) == text.count(wait) == 1
    return text.replace(send, "").replace(wait, send.replace("result", "mine") + wait)


@pytest.mark.parametrize(
    ("kernel", "change", "words"),
    [
        ("one_shots", flag_by_itself, "fence"),
        ("two_shots_ll", flag_by_itself, "fence"),
        ("two_shots", no_release, "fence"),
        ("two_shots", one_wait, "race"),
    ],
)
def test_a_missing_fence_or_wait_is_found(kernel: str, change: Any, words: str) -> None:
    x = inputs("float32", 2, 61, 2, whole=True)
    execution = reduced(kernel, "float32", x, 61, change=change)
    assert any(words in finding.message for finding in execution.findings), execution.findings


def test_one_set_of_lines_is_not_enough() -> None:
    """In some orders a rank overwrites lines that another has still to read, which then waits for them in vain."""
    x = inputs("float32", 2, 61, 6, whole=True)
    wrong = []
    for seed in range(24):
        execution = reduced("one_shots", "float32", x, 61, change=one_set, seed=seed)
        wrong.append(not is_sum(execution, x, "float32", 61))
        assert is_sum(reduced("one_shots", "float32", x, 61, seed=seed), x, "float32", 61)
    assert any(wrong)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_rank_that_is_gone_is_named_and_later_calls_do_not_wait(kernel: str) -> None:
    """Of three ranks' blocks the last one's are not there; the other two end, and know which rank they missed."""
    x = inputs("float32", 4, 61, 1, whole=True)
    execution = reduced(kernel, "float32", x, 61, ranks=3)
    assert execution.findings == ()
    faults = faults_of(execution, kernel)
    assert (faults[:3] == 1 + 3).all() and not faults[3].any()
    again = reduced(kernel, "float32", x, 61, ranks=3, before=execution)
    assert again.launches[0].total.warp_instructions < execution.launches[0].total.warp_instructions / 100


@pytest.mark.parametrize("change", [same_lines, sum_sent_too_early])
def test_the_second_message_of_the_ll_two_shot_needs_lines_and_an_order_of_its_own(change: Any) -> None:
    x = inputs("float32", 4, 61, 3, whole=True)
    executions = [reduced("two_shots_ll", "float32", x, 61, change=change, seed=seed) for seed in range(3)]
    assert any(not is_sum(execution, x, "float32", 61) for execution in executions)


def test_who_misses_a_part_sends_no_sum_of_it() -> None:
    """Rank 0 sends rank 1 nothing to add: rank 1 knows, and all others know that they have no sum from it."""
    send = "if (p != team.rank) send_to<RANKS>(team, p, PARTS"

    def one_part_less(text: str) -> str:
        assert text.count(send) == 1
        return text.replace(send, send.replace("if (", "if ((team.rank || p != 1) && "))

    x = inputs("float32", 4, 61, 1, whole=True)
    execution = reduced("two_shots_ll", "float32", x, 61, change=one_part_less)
    assert faults_of(execution, "two_shots_ll").tolist() == [[1 + 1] * 2, [1 + 0] * 2, [1 + 1] * 2, [1 + 1] * 2]
