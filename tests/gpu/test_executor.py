"""The executor on a real GPU: what is computed, what is caught, and what survives."""

import numpy as np
import pytest

from tests.gpu.submissions import AXPY
from warplab.hardware.device import architecture_of, present
from warplab.plan.archive import save
from warplab.plan.assemble import assemble
from warplab.plan.capture.submission import capture
from warplab.plan.model import ArrayArgument, HostCall, Role, ScalarArgument
from warplab.worker.process import Worker, WorkerError, WorkerFault

pytestmark = pytest.mark.gpu
N = 1000


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plans")
    source = folder / "submission.py"
    source.write_text(AXPY)

    def plan(function):
        arrays = [ArrayArgument(name, "float32", (N,), Role.INPUT) for name in ("x", "y")]
        arguments = (ScalarArgument("alpha", 1.5), *arrays, ArrayArgument("out", "float32", (N,), Role.OUTPUT))
        architecture = architecture_of(present())
        captured = capture(source, [HostCall(function, arguments)], (architecture,))[0]
        path = folder / f"{function}.plan"
        save(assemble(captured, architecture), path)
        return str(path)

    return plan


@pytest.fixture(scope="module")
def worker():
    with Worker() as worker:
        yield worker


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(5)
    return {name: rng.integers(-8, 8, N).astype(np.float32) for name in ("x", "y")}


def run(worker, plan, inputs, timeout=60):
    return worker.call("tests.gpu.gpu_targets:execute", timeout=timeout, plan=plan, inputs=inputs)


@pytest.mark.parametrize("function", ["cpp", "numba"])
def test_both_languages_compute(worker, plans, inputs, function):
    answer = run(worker, plans(function), inputs)
    np.testing.assert_array_equal(answer["outputs"]["out"], np.float32(1.5) * inputs["x"] + inputs["y"])
    assert answer["findings"] == []


def test_host_data_structures_and_cooperative_grids(worker, plans, inputs):
    """The kernel spoils its table after all blocks have read it: the second execution starts with the original."""
    answer = worker.call("tests.gpu.gpu_targets:execute", timeout=60, plan=plans("own_data"), inputs=inputs, runs=2)
    np.testing.assert_array_equal(answer["outputs"]["out"], np.arange(N) % 4 + 2 + 100 + 0.5)
    assert answer["findings"] == []


def test_scratch_carries_values_between_launches(worker, plans, inputs):
    answer = run(worker, plans("scratch"), inputs)
    expected = 1.5 * (1.5 * inputs["x"] + inputs["y"]) + inputs["y"]
    np.testing.assert_array_equal(answer["outputs"]["out"], expected)


def test_kernels_of_one_module_share_its_variables(worker, plans, inputs):
    answer = run(worker, plans("variable"), inputs)
    np.testing.assert_array_equal(answer["outputs"]["out"], np.repeat(inputs["x"][0], N))


def test_more_than_48_kib_of_dynamic_shared_memory(worker, plans, inputs):
    np.testing.assert_array_equal(run(worker, plans("reverse"), inputs)["outputs"]["out"], inputs["x"][::-1])


def test_a_write_behind_the_output_is_found(worker, plans, inputs):
    assert run(worker, plans("beyond"), inputs)["findings"] == ["write outside a buffer"]


def test_a_changed_input_is_found(worker, plans, inputs):
    assert run(worker, plans("modifies"), inputs)["findings"] == ["input modified"]


@pytest.mark.parametrize(("function", "words"), [("illegal", "illegal address"), ("endless", "within 20 s")])
def test_a_fault_costs_only_its_own_call(worker, plans, inputs, function, words):
    run(worker, plans("cpp"), inputs)
    with pytest.raises(WorkerError, match=words) as caught:
        run(worker, plans(function), inputs, 60)
    assert caught.value.status is WorkerFault.DEVICE_FAULT
    answer = run(worker, plans("cpp"), inputs)
    np.testing.assert_array_equal(answer["outputs"]["out"], np.float32(1.5) * inputs["x"] + inputs["y"])


def test_the_same_work_takes_the_same_time_and_no_less_than_the_datasheet_allows(worker):
    answer = worker.call("tests.gpu.gpu_targets:same_work_twice", timeout=60)
    assert answer["ratio"] == pytest.approx(1, abs=0.01)
    chip = present().chip
    assert chip is None or answer["copy"] < chip.bandwidth


@pytest.mark.parametrize(("warm", "launches"), [(False, [1]), (True, [2])])
def test_what_is_timed_warm_is_launched_right_before(worker, warm, launches):
    assert worker.call("tests.gpu.gpu_targets:launches_a_turn", timeout=60, warm=warm) == launches


def test_buffers_are_overwritten_before_they_are_given_back(worker, plans, inputs):
    answer = worker.call("tests.gpu.gpu_targets:what_a_plan_leaves", timeout=60, plan=plans("scratch"), inputs=inputs)
    assert answer["before"] > 0 and answer["after"] == 0
