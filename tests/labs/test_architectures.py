"""Every reference is assembled and emulated for every GPU that learners have, or one sentence says why it is not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from autograder.own_work import capture_submission
from autograder.records.machine import choose_machine, serves
from autograder.records.status import Executor, Status
from autograder.spec.inputs import generate, host_calls
from autograder.spec.lab import Lab, find_lab, kernel_labs, solutions_folder
from autograder.submissions import references
from autograder.worker.judge_case import compare_outputs
from autograder.worker.prepare_stage import Captured
from autograder.worker.same_kernels import other_kernels
from tests.labs.judging import SEED
from tests.sampling import WHOLE
from warplab import emulator
from warplab.gpu import trusted
from warplab.hardware import device
from warplab.isa.entry import entries
from warplab.plan.assemble import assemble
from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.nvrtc import compile_cpp
from warplab.plan.capture.submission import capture
from warplab.plan.limits import limits_of
from warplab.plan.model import Buffer, Kernel, Language, Launch, Parameter, Plan, Pointer, Role, Value

pytestmark = pytest.mark.processes

CARDS = {
    "Tesla T4": (7, 5), "NVIDIA A100": (8, 0), "NVIDIA GeForce RTX 3090": (8, 6), "NVIDIA L4": (8, 9),
    "NVIDIA H200": (9, 0), "NVIDIA B200": (10, 0), "NVIDIA GeForce RTX 5090": (12, 0),
}  # fmt: skip
REFERENCES = [(find_lab(lab.name), source) for lab, source in references() if lab.name in kernel_labs()]
# Which takes ten seconds to compile for each architecture.
LARGEST = ("02_divergence", "submission")
# What runs on an A100 runs on most of them. Of the others, which take the emulator longer, `make test` has none.
SHORT = [(lab, s) for lab, s in REFERENCES if serves("sm_80", lab.needs) and (lab.name, s.stem) != LARGEST]
IN_EACH = [[(lab, source) for lab, source in SHORT if lab.name == name] for name in {lab.name: 0 for lab, _ in SHORT}]
# Of a lab's two languages `make test` has one, of one lab after another the first or the second.
TRIED = REFERENCES if WHOLE else [own[number % len(own)] for number, own in enumerate(IN_EACH)]
EVERY = 3  # of a reference's cards `make test` has every third, beginning with the first, the second or the third


def names(value: object) -> str:
    return f"{value.parent.name}/{value.stem}" if isinstance(value, Path) else ""


# Rays wait in 124 KiB of shared memory, two tiles in 64 KiB: not all have that. Written for what they are timed on.
LARGE = {
    ("02_divergence", "submission_cuda"): {"sm_75", "sm_86", "sm_89", "sm_120a"},
    ("20_compaction", "submission_cuda"): {"sm_75"},
}


@pytest.mark.parametrize(("lab", "source"), TRIED, ids=names)
def test_every_card_that_serves_a_lab_assembles_its_reference_which_is_right_there(lab: Lab, source: Path) -> None:
    too_small = LARGE.get((lab.name, source.stem), set())
    served = [a for a in map(device.architecture, CARDS.values()) if serves(a, lab.needs) and a not in too_small]
    if not WHOLE:
        served = served[TRIED.index((lab, source)) % EVERY :: EVERY]
    assert served
    case = min(lab.task.correctness, key=lambda case: (case.needs_gpu, np.prod([*case.dimensions.values()])))
    (call,) = host_calls(lab.task, (case,), SEED)
    (plan,) = capture(source, (call,), served, timeout=300)
    values = generate(np, lab.task, case, SEED)
    for architecture in served:
        assembled = assemble(plan, architecture)
        for kernel in assembled.kernels.values():
            cubin = kernel.cubins[architecture]
            assert cubin.image[:4] == b"\x7fELF"
            assert cubin.static_shared <= limits_of(architecture).block_shared
        inputs = {name: values[name] for name in plan.buffers if name in values}
        # To read its machine code, which only counters ask for, takes longer than to run it: make test-long does.
        execution = emulator.execute(assembled if WHOLE else plan, inputs, architecture=architecture)
        assert execution.findings == ()
        assert compare_outputs(lab.task, case, values, execution.outputs).status is Status.PASSED, architecture


# That in CUDA C++, which compiles sooner, first: `make test` has no other.
@pytest.fixture(scope="module", params=["turing_2_cuda", "turing_1_half_the_depth"][: None if WHOLE else 1])
def turing(request: pytest.FixtureRequest) -> tuple[Lab, Captured]:
    lab = find_lab("07_tensor_core_hgemm")
    source = solutions_folder() / lab.name / f"{request.param}.py"
    cases = [lab.case(name) for name in ("few steps of k", "ragged", "profile", "timing")]
    return lab, capture_submission(lab, source, cases, SEED, lab.form)


@pytest.mark.parametrize("name", ["few steps of k", "ragged", "profile"])
def test_lab_07_has_a_form_for_the_t4_which_is_right_there_and_keeps_the_budgets(
    turing: tuple[Lab, Captured], name: str
) -> None:
    (lab, captured), case = turing, turing[0].case(name)
    plan, values = captured.plans[name], generate(np, lab.task, case, SEED)
    for kernel in plan.kernels.values():
        assert "m16n8k8" in kernel.ptx[lab.form] and "cp.async" not in kernel.ptx[lab.form]
    execution = emulator.execute(plan, {n: v for n, v in values.items() if n in plan.buffers}, architecture=lab.form)
    assert execution.findings == ()
    assert compare_outputs(lab.task, case, values, execution.outputs).status is Status.PASSED
    if name == "profile":
        over = [b.counter for b in lab.task.budgets if execution.total.amount(b.counter) > b.limit(case.dimensions)]
        assert over == [] and not other_kernels(plan, captured.plans["timing"], ())
        assert all(kernel.spill_bytes == 0 for kernel in captured.kernels)


@pytest.mark.parametrize("capability", [*CARDS.values()])
def test_the_ceiling_of_tensor_cores_is_measured_with_products_that_the_card_has(capability: tuple[int, int]) -> None:
    architecture = device.architecture(capability)
    ptx = compile_cpp(trusted.source(), "trusted.cu", ("-std=c++17",), (), architecture).ptx
    parameters = tuple(Parameter("", p.size, p.align) for p in entries(ptx)["tensor_fp16"].parameters)
    kernel = Kernel("tensor_fp16", "tensor_fp16", Language.CUDA_CPP, parameters, {architecture: ptx})
    threads = trusted.TENSOR_THREADS
    launch = Launch("tensor_fp16", (1, 1, 1), (threads, 1, 1), (Pointer("out"), Value("int32", 3)))
    out = Buffer("out", Role.OUTPUT, "float32", (threads,), (4,))
    plan = Plan("measure", {"tensor_fp16": kernel}, {"out": out}, (launch,))
    counted = emulator.execute(assemble(plan, architecture), {}, architecture=architecture, sanitize=False).total
    assert 2 * counted.tensor_multiply_adds == 3 * trusted.tensor_flops_per_step("tensor_fp16", capability)


def test_a_reference_that_needs_more_shared_memory_than_a_card_has_says_so() -> None:
    name, stem = "02_divergence", "submission_cuda"
    lab, source = next((lab, source) for lab, source in REFERENCES if (lab.name, source.stem) == (name, stem))
    (call,) = host_calls(lab.task, (lab.task.timing,), SEED)
    for architecture in sorted(LARGE[name, stem])[:: 1 if WHOLE else 2]:
        most = limits_of(architecture).block_shared
        with pytest.raises(
            CaptureFailure, match=f"shared memory per block .* but {architecture} has at most {most}: use"
        ):
            capture(source, (call,), (architecture,), timeout=300)


def test_hoppers_own_instructions_are_refused_elsewhere_in_one_sentence() -> None:
    lab, source = next((lab, source) for lab, source in REFERENCES if lab.name == "08_hopper_hgemm")
    (call,) = host_calls(lab.task, (lab.task.profile,), SEED)
    with pytest.raises(CaptureFailure) as caught:
        capture(source, (call,), ("sm_89",))
    assert "\n" not in caught.value.message and caught.value.message.count(". ") == 0


@pytest.mark.parametrize("card", CARDS)
def test_what_a_card_cannot_run_is_emulated_and_says_why(card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(name=card, driver="580.65.06", compute_capability=CARDS[card], mps=False)
    monkeypatch.setattr(device, "present", lambda index=0: gpu)
    for lab in {lab.name: lab for lab, _ in REFERENCES}.values():
        machine = choose_machine("auto", lab.oldest)
        runs = serves(device.architecture(CARDS[card]), lab.oldest)
        assert machine.device is (Executor.GPU if runs else Executor.EMULATOR)
        assert runs or f"need {lab.needs}, which the {card}" in machine.hardware
    on_the_card = {lab.name[:2] for lab, _ in REFERENCES if serves(device.architecture(CARDS[card]), lab.oldest)}
    assert on_the_card >= {"01", "02", "03", "04", "05", "06", "07"}
