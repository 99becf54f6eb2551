"""What ordinary stores wrote may be read by the async proxy only after a fence.proxy.async."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.tensor.warpgroup import FENCE, WAIT, Layout, product, run
from warplab.plan.execution import Execution, FindingKind

STORE = "st.shared.v4.b32 [%r7], {%r3, %r4, %r5, %r6};"
PROXY = "fence.proxy.async.shared::cta;"
MEET = "bar.sync 0;"


def multiplied(before: str, seed: int | None = None) -> Execution:
    """A wgmma of tiles in shared memory that the kernel fills and fences, with `before` in between."""
    left, right = Layout(64, 2), Layout(8, 2, start=2048)
    text = product("k16.f32.f16.f16", 8, left.descriptor(), right.descriptor(), ", 1, 1, 0, 0", 4)
    tile = np.zeros(4096, np.uint8)
    return run(f"{before}\n{FENCE}\n{text}\n{WAIT}", tile, np.zeros((4, 128), np.uint32), seed=seed)


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize(
    "before",
    [
        f"{STORE} {PROXY} {MEET}",
        f"{STORE} {MEET} {PROXY} {MEET}",  # another thread may fence what it knows
        f"{STORE} {MEET} {PROXY}",
        f"{STORE} fence.proxy.async; {MEET} ld.shared.b32 %r9, [%r7];",
    ],
)
def test_a_fence_between_store_and_product(before: str, seed: int | None) -> None:
    assert multiplied(before, seed).findings == ()


@pytest.mark.parametrize("before", [f"{STORE} {MEET}", f"{PROXY} {STORE} {MEET}", f"{STORE} {MEET} @%p2 {PROXY}"])
def test_no_fence_between_store_and_product(before: str) -> None:
    for seed in (None, 1):
        result = multiplied(before, seed)
        assert {f.kind for f in result.findings} == {FindingKind.RACE}
        assert "no fence.proxy.async" in result.findings[0].message


def test_a_missing_barrier_is_a_race_whatever_is_fenced() -> None:
    result = multiplied(f"{STORE} {PROXY}")
    assert {f.kind for f in result.findings} == {FindingKind.RACE}
    assert "fence.proxy" not in result.findings[0].message
