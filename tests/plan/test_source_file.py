"""What lies where a submission should lie, and what it is called."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.plan.conftest import call
from tests.plan.good import GOOD
from warplab.plan.assemble import assemble
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.source_file import MAX_SOURCE, read_source
from warplab.plan.capture.submission import capture

pytestmark = pytest.mark.processes

posix = pytest.mark.skipif(os.name != "posix", reason="files of these kinds are POSIX's")
NUMBA = """
from numba import cuda

@cuda.jit
def k(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]

def f(x, y):
    k[8, 128](x, y)
"""


def refused(path: Path) -> CaptureFailure:
    with pytest.raises(CaptureFailure) as caught:
        read_source(path)
    return caught.value


@posix
def test_links_are_not_followed(tmp_path: Path) -> None:
    """One to the reference earned full marks, one to a private file showed its first line."""
    (tmp_path / "secret.py").write_text("token = 1")
    (tmp_path / "link.py").symlink_to(tmp_path / "secret.py")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "submission.py").write_text("x = 1")
    (tmp_path / "linked").symlink_to(tmp_path / "folder")
    for path in (tmp_path / "link.py", tmp_path / "linked" / "submission.py"):
        failure = refused(path)
        assert "symbolic link" in failure.message and "token" not in failure.message
    assert read_source(tmp_path / "folder" / "submission.py") == "x = 1"


@posix
def test_a_pipe_a_device_a_folder_and_a_socket_are_no_submissions(tmp_path: Path) -> None:
    """A pipe that nobody writes to held the judge for ever; /dev/zero took all its memory."""
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    kinds = {tmp_path / "pipe.py": "named pipe", Path("/dev/zero"): "device", tmp_path / "folder.py": "a folder"}
    for path, words in kinds.items():
        assert words in refused(path).message and refused(path).status is CaptureStatus.NOT_PYTHON


def test_size_and_text_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "s.py"
    path.write_bytes(b"#" * MAX_SOURCE)
    assert len(read_source(path)) == MAX_SOURCE
    path.write_bytes(b"#" * (MAX_SOURCE + 1))
    assert "larger than 1 MiB" in refused(path).message
    with open(path, "wb") as sparse:
        sparse.truncate(1 << 40)
    assert "larger than 1 MiB" in refused(path).message
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refused(path).message


@pytest.mark.skipif(sys.platform == "win32", reason="not every one of these is a name there")
@pytest.mark.parametrize("source", [GOOD, NUMBA], ids=["cuda", "numba"])
@pytest.mark.parametrize(
    "name",
    ["müller lösung.py", "张伟.py", 'it\'s "mine".py', "a\nb.py", "-O3.py", "x\\y.py", "\udcff.py", "s" * 250 + ".py"],
)
def test_any_name_works(name: str, source: str, tmp_path: Path) -> None:
    """Names of people reached the assembler, which refused them: honest work got no points for its name."""
    (tmp_path / name).write_text(source)
    (plain,) = capture(_written(tmp_path / "plain.py", source), [call()])
    (plan,) = capture(tmp_path / name, [call()])
    assert [k.ptx for k in plan.kernels.values()] == [k.ptx for k in plain.kernels.values()]
    assert assemble(plan, "sm_90a").kernels


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
