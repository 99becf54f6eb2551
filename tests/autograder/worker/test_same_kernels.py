"""The kernels that are timed are those that are counted and judged."""

from __future__ import annotations

from autograder.worker.same_kernels import other_kernels
from warplab.plan.model import Kernel, Language, Launch, Plan

NOTHING_WRONG = ""


def kernel(name: str, ptx: str = "", entry: str = "") -> Kernel:
    text = f".visible .entry {entry or name}() {{ {ptx} ret; }}"
    return Kernel(name, entry or name, Language.CUDA_CPP, (), {"sm_90a": text})


def plan(*launched: Kernel, idle: tuple[Kernel, ...] = ()) -> Plan:
    """A plan that launches these kernels, in that order; keys tell nothing, as a plan's own may be anything."""
    kernels = {str(number): each for number, each in enumerate((*launched, *idle))}
    launches = tuple(Launch(str(number), (1, 1, 1), (32, 1, 1), ()) for number in range(len(launched)))
    return Plan("f", kernels, {}, launches)


TILED, NAIVE, EDGE, ZERO = kernel("tiled"), kernel("naive", "bar.sync 0;"), kernel("edge"), kernel("zero")


def test_one_kernel_for_all_sizes() -> None:
    assert other_kernels(plan(TILED), plan(TILED), [plan(TILED), plan(TILED)]) == NOTHING_WRONG


def test_how_often_and_in_which_order_does_not_matter() -> None:
    counted, timed = plan(ZERO, TILED), plan(TILED, TILED, ZERO, TILED)
    assert other_kernels(counted, timed, [plan(ZERO, TILED)]) == NOTHING_WRONG


def test_a_kernel_for_edges_is_free() -> None:
    assert other_kernels(plan(TILED), plan(TILED), [plan(EDGE), plan(TILED), plan(TILED, EDGE)]) == NOTHING_WRONG


def test_kernels_that_are_not_launched_do_not_count() -> None:
    assert other_kernels(plan(TILED, idle=(NAIVE,)), plan(TILED), [plan(TILED)]) == NOTHING_WRONG
    assert other_kernels(plan(TILED), plan(NAIVE, idle=(TILED,)), [plan(TILED)])


def test_another_kernel_for_what_is_timed() -> None:
    words = other_kernels(plan(TILED), plan(NAIVE), [plan(TILED), plan(NAIVE)])
    assert "the timed case launches naive, the profile case tiled" in words


def test_one_kernel_more_or_less() -> None:
    more = other_kernels(plan(TILED), plan(TILED, EDGE), [plan(TILED, EDGE)])
    assert "the timed case launches edge, the profile case no other kernel" in more
    assert other_kernels(plan(TILED, EDGE), plan(TILED), [plan(TILED, EDGE)])


def test_one_name_for_two_kernels() -> None:
    for other in (kernel("tiled", "bar.sync 0;"), kernel("tiled", entry="tiled_2")):
        assert "tiled in another form" in other_kernels(plan(TILED), plan(other), [plan(TILED), plan(other)])


def test_two_names_for_one_kernel_are_one() -> None:
    same = kernel("another name", entry="tiled")
    assert other_kernels(plan(TILED), plan(same), [plan(TILED)]) == NOTHING_WRONG


def test_a_kernel_that_no_correctness_case_launches() -> None:
    words = other_kernels(plan(ZERO, TILED), plan(ZERO, TILED), [plan(ZERO, NAIVE), plan(ZERO, EDGE)])
    assert "no correctness case that is shown launches tiled." in words
    assert other_kernels(plan(TILED), plan(TILED), []) == NOTHING_WRONG


def test_names_cannot_give_orders_to_a_terminal() -> None:
    assert "\x1b" not in other_kernels(plan(TILED), plan(kernel("\x1b[2J", entry="naive")), [])
