"""A worker answers, and survives what its calls do to it."""

import numpy as np
import pytest

from warplab.worker.process import Worker, WorkerError, WorkerFault

pytestmark = pytest.mark.processes

TARGETS = "tests.gpu.worker_targets"


@pytest.fixture(scope="module")
def worker():
    with Worker() as worker:
        yield worker


def test_arrays_bytes_and_nesting_survive_the_trip(worker):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    answer = worker.call(f"{TARGETS}:double", timeout=30, array=array, scale=3)
    np.testing.assert_array_equal(answer["array"], array * 3)
    assert answer["array"].dtype == np.float32 and answer["array"].flags.writeable
    assert answer["nested"] == [{"raw": b"\x00\xff"}, None, 1.5]


def test_a_strided_half_array_arrives_as_it_looks(worker):
    np.testing.assert_array_equal(worker.call(f"{TARGETS}:halves", timeout=30), np.array([[0, 2], [3, 5]], np.float16))


def test_what_a_call_prints_does_not_mix_with_answers(worker):
    assert worker.call(f"{TARGETS}:printing", timeout=30) == "fine"
    assert worker.call(f"{TARGETS}:printing", timeout=30) == "fine"


def test_an_exception_is_reported_and_the_process_lives_on(worker):
    before = worker.call(f"{TARGETS}:double", timeout=30, array=np.zeros(1))["pid"]
    with pytest.raises(WorkerError, match="the reason") as caught:
        worker.call(f"{TARGETS}:fail", timeout=30)
    assert caught.value.status is WorkerFault.ERROR and caught.value.kind == "ValueError"
    assert worker.call(f"{TARGETS}:double", timeout=30, array=np.zeros(1))["pid"] == before


def test_an_answer_that_cannot_be_sent_is_an_error_not_a_hang(worker):
    with pytest.raises(WorkerError) as caught:
        worker.call(f"{TARGETS}:unsendable", timeout=30)
    assert caught.value.status is WorkerFault.ERROR


@pytest.mark.parametrize(
    ("function", "timeout", "status"),
    [
        ("fault", 30, WorkerFault.DEVICE_FAULT),
        ("die", 30, WorkerFault.CRASHED),
        ("hang", 0.5, WorkerFault.TIMEOUT),
    ],
)
def test_after_a_fault_the_next_call_gets_a_fresh_process(worker, function, timeout, status):
    before = worker.call(f"{TARGETS}:double", timeout=30, array=np.zeros(1))["pid"]
    with pytest.raises(WorkerError) as caught:
        worker.call(f"{TARGETS}:{function}", timeout=timeout)
    assert caught.value.status is status
    assert worker.call(f"{TARGETS}:double", timeout=30, array=np.zeros(1))["pid"] != before


def test_closing_twice_and_never_starting_are_harmless():
    worker = Worker()
    worker.close()
    worker.close()
