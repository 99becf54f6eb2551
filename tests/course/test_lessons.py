"""What a report teaches: the wasted lines with their cost, and the one thing to try next."""

from __future__ import annotations

from dataclasses import replace

from autograder.records.outcome import FirstWrong
from autograder.records.report import BudgetResult, CaseResult, KernelFigures, PartResult, WastedLine
from autograder.records.status import Part, Status
from autograder.report.advice import next_step
from autograder.report.waste import wasted_lines
from tests.autograder.handmade import measurement
from warplab.plan.execution import Counters, Finding, FindingKind, Writer

LOADS = Counters(global_load_requests=10, global_load_sectors=320, global_load_ideal_sectors=40)
STORES = Counters(global_store_requests=10, global_store_sectors=40, global_store_ideal_sectors=40)
SHARED = Counters(shared_load_wavefronts=96, shared_load_bank_conflicts=72)
LOCAL = Counters(local_load_sectors=20, local_store_sectors=20)


def total(*lines: Counters) -> Counters:
    result = Counters()
    for line in lines:
        result += line
    return result


def parts(**changed: PartResult) -> list[PartResult]:
    passed = {part: PartResult(part, Status.PASSED, 10, 10, feedback=f"section {part}") for part in Part}
    return list((passed | {Part(name): part for name, part in changed.items()}).values())


def failed(part: Part, status: Status, **more: object) -> dict[str, PartResult]:
    return {part.value: PartResult(part, status, 0, 10, feedback=f"section {part}", **more)}  # type: ignore[arg-type]


def test_wasted_lines_say_what_they_cost() -> None:
    lines = {3: LOADS, 4: STORES, 7: SHARED, 9: LOCAL, 0: LOADS}
    found = wasted_lines(total(LOADS, STORES, SHARED, LOCAL), lines)
    assert [w.line for w in found] == [7, 3, 9]
    assert [round(w.share, 3) for w in found] == [0.75, 0.7, 0.1]
    assert "reads 320 sectors where 40 would do" in found[1].words and "70% of all the sectors" in found[1].words
    assert "96 wavefronts of shared memory, 72 of them because lanes meet" in found[0].words
    assert "40 sectors of local memory" in found[2].words


def test_a_good_kernel_wastes_nothing() -> None:
    clean = Counters(global_load_sectors=40, global_load_ideal_sectors=40, shared_load_wavefronts=8)
    assert wasted_lines(total(clean, STORES), {3: clean, 4: STORES}) == ()
    assert wasted_lines(Counters(), {}) == ()
    assert next_step(parts()) == ""


def test_what_is_next_begins_with_the_sanitizers() -> None:
    wrong = failed(Part.CORRECTNESS, Status.WRONG_ANSWER)
    at = "(thread (3, 0, 0) of block (1, 0, 0))"
    race = Finding(FindingKind.RACE, f"Line 12 reads x[0]: put a barrier between lines 9 and 12 {at}.", "k", 12)
    stray = Finding(FindingKind.OUT_OF_BOUNDS, f"Line 12 reads x[4], but x has shape (4,) {at}.", "k", 12)
    for found, said in (
        (race, "Line 12 reads x[0]: put a barrier between lines 9 and 12."),
        (stray, "Line 12 reads x[4], but x has shape (4,): compare the index with"),
    ):
        step = next_step(parts(**wrong, **failed(Part.SAFETY, found.kind, findings=(found,))))
        assert step.startswith(said) and step.endswith("Read section safety.")


def test_only_indices_that_fit_in_the_other_order_are_to_be_swapped() -> None:
    for index, swapped in (((5, 1), True), ((5, 4), False), ((5, -1), False), ((-1, 1), False)):
        row, column = index
        words = f"Line 12 reads x[{row}, {column}], but x has shape (3, 8)."
        found = Finding(FindingKind.OUT_OF_BOUNDS, words, "k", 12, index=index)
        step = next_step(parts(**failed(Part.SAFETY, found.kind, findings=(found,))))
        assert ("swap its two indices" in step) is swapped


def test_a_wrong_answer_leads_to_the_thread_that_stored_it() -> None:
    first = FirstWrong("c", (2, 5), 0.0, 1.0, 0.0, writer=Writer("k", 9, (1, 0, 0), (3, 0, 0)))
    small = CaseResult("tiny", Status.WRONG_ANSWER, total=6, first_wrong=first)
    large = CaseResult("large", Status.WRONG_ANSWER, total=600, first_wrong=replace(first, index=(0, 0)))
    said = next_step(parts(**failed(Part.CORRECTNESS, Status.WRONG_ANSWER, cases=(large, small))))
    assert "case 'tiny' and follow thread (3, 0, 0) of block (1, 0, 0) to line 9" in said and "c[2, 5]" in said
    unwritten = CaseResult(
        "tiny", Status.WRONG_ANSWER, total=6, first_wrong=replace(first, writer=None, unwritten=True)
    )
    said = next_step(parts(**failed(Part.CORRECTNESS, Status.WRONG_ANSWER, cases=(unwritten,))))
    assert "the thread that should store c[2, 5]" in said
    hidden = CaseResult("hidden case 1", Status.WRONG_ANSWER)
    said = next_step(parts(**failed(Part.CORRECTNESS, Status.WRONG_ANSWER, cases=(hidden,))))
    assert said == "Read section correctness."


def test_traffic_names_the_worst_budget_and_the_line_to_begin_with() -> None:
    budgets = (
        BudgetResult("global_load_sectors", "", 20, 10, "Read neighbours."),
        BudgetResult("shared_load_bank_conflicts", "", 90, 10, "Pad the rows."),
    )
    said = next_step(
        parts(**failed(Part.TRAFFIC, Status.OVER_BUDGET, budgets=budgets)), (WastedLine(8, 0.9, "Line 8 wastes."),)
    )
    assert said == "Pad the rows. Begin with line 8. Read section traffic."


def test_the_line_to_begin_with_wastes_what_the_worst_budget_counts() -> None:
    waste = (
        WastedLine(8, 0.9, "Line 8 takes 9 wavefronts of shared memory, 8 of them because lanes meet in one bank."),
        WastedLine(5, 0.2, "Line 5 reads 9 sectors where 2 would do if lanes went to neighbouring elements."),
    )
    for counter, line in (("shared_load_wavefronts", 8), ("global_load_sectors", 5), ("busiest_sm_sectors", None)):
        budgets = (BudgetResult(counter, "", 90, 10, "Less."),)
        said = next_step(parts(**failed(Part.TRAFFIC, Status.OVER_BUDGET, budgets=budgets)), waste)
        assert said == ("Less." if line is None else f"Less. Begin with line {line}.") + " Read section traffic."


def test_kernels_that_are_not_those_that_were_counted_are_named() -> None:
    lost = failed(Part.TRAFFIC, Status.OTHER_KERNELS, message="What is timed is not what was counted: two kernels.")
    assert next_step(parts(**lost)).startswith("What is timed is not what was counted")


def test_speed_looks_at_spills_then_waste_then_occupancy() -> None:
    slow = parts(**failed(Part.EFFICIENCY, Status.SLOW, measurement=measurement()))
    spilling = KernelFigures("k", 3, 255, 64, 0, 0.5)
    thin = KernelFigures("k", 3, 255, 0, 40_000, 0.125)
    good = KernelFigures("k", 3, 32, 0, 0, 1.0)
    waste = (WastedLine(8, 0.9, "Line 8 wastes."),)
    assert "spills 64 bytes" in next_step(slow, waste, (spilling,))
    assert next_step(slow, waste, (thin,)).startswith("Line 8 wastes.")
    assert "only 12% of the threads" in next_step(slow, (), (thin,))
    assert "more of it must be on its way" in next_step(slow, (), (good,))
    for status in (Status.NOT_MEASURED, Status.WITHHELD):
        assert next_step(parts(**failed(Part.EFFICIENCY, status))) == ""
