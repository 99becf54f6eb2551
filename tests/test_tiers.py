"""Tests without a mark start nothing, and say how to be marked."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from threading import Thread

import pytest

from tests import stored, tiers
from warplab.plan.capture.submission import answer_of

STARTS: dict[str, Callable[[], object]] = {
    "python": lambda: subprocess.run([sys.executable, "-c", ""]),
    "os.fork": os.fork,
    "libnvrtc.so.13": lambda: ctypes.CDLL("libnvrtc.so.13"),
    "a capture": lambda: answer_of("", "submission.py", ()),
}


@pytest.mark.parametrize("what", STARTS)
def test_what_a_test_without_a_mark_starts_is_refused(what: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=f"starts {what}.*: mark it `processes`"):
        STARTS[what]()
    tiers.Now.refused = ""


def test_what_a_thread_is_refused_fails_its_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threading.excepthook", lambda _: None)
    thread = Thread(target=STARTS["python"])
    thread.start()
    thread.join()
    test = tiers.Now.test
    with pytest.raises(pytest.fail.Exception, match="starts python"):
        tiers.end()
    tiers.Now.test, tiers.Now.refused = test, ""


@pytest.mark.stored
def test_a_kernel_that_is_not_stored_says_how_to_store_it() -> None:
    if stored.MODE == "read":
        with pytest.raises(pytest.fail.Exception, match="run `make stored`"):
            stored.kept("cuda", ("not stored",), lambda: b"")


def test_nothing_that_names_a_folder_of_the_clone_is_stored() -> None:
    with pytest.raises(pytest.fail.Exception, match="names a folder of this clone"):
        stored.keep("cuda/x", f'.file 2 "{sys.prefix}/include/x.h"'.encode())


def test_kernels_differ_by_what_they_use() -> None:
    def made(factor: float, function: Callable) -> Callable:
        def kernel(x):
            x[0] = factor * function(x[1])

        return kernel

    kernels = [made(2.0, max), made(3.0, max), made(2.0, min)]
    assert len({stored.identity(kernel) for kernel in kernels}) == 3
