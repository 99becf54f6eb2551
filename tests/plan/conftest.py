"""What the tests of plans share: a submission given as text, captured."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from warplab.plan.capture.failure import CaptureFailure
from warplab.plan.capture.submission import capture
from warplab.plan.model import ArrayArgument, HostCall, Plan, Role, ScalarArgument

X = ArrayArgument("x", "float32", (1000,), Role.INPUT)
Y = ArrayArgument("y", "float32", (1000,), Role.OUTPUT)
NUMBA = "from numba import cuda\nimport numpy as np\n"

Grab = Callable[..., Plan]
Refuse = Callable[..., CaptureFailure]


def call(*arguments: ArrayArgument | ScalarArgument) -> HostCall:
    return HostCall("f", arguments or (X, Y))


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLAB_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str, name: str = "submission.py") -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return written


@pytest.fixture
def grab(write: Callable[[str], Path]) -> Grab:
    """The plan of one call of `f` in a submission."""

    def grabbed(text: str, *arguments: ArrayArgument | ScalarArgument, architectures: tuple = ("sm_90a",)) -> Plan:
        return capture(write(text), [call(*arguments)], architectures)[0]

    return grabbed


@pytest.fixture
def refuse(write: Callable[[str], Path]) -> Refuse:
    """The failure that a submission ends in; checks what all failures have in common."""

    def refused(text: str, *arguments: ArrayArgument | ScalarArgument, timeout: float = 60.0) -> CaptureFailure:
        with pytest.raises(CaptureFailure) as caught:
            capture(write(text), [call(*arguments)], timeout=timeout)
        failure = caught.value
        assert "\n" not in failure.message and "Traceback" not in failure.message

        assert "/tmp" not in failure.message and "site-packages" not in failure.message
        return failure

    return refused
