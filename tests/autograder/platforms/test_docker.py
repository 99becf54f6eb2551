"""The images, built and run: a class graded in two containers, and what the one with strangers' code can reach."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.spec.lab import CHECKOUT

pytestmark = pytest.mark.instructor

LAB = "01_axpy"
EXPLOITS = CHECKOUT / "corpus" / "judge" / "submissions" / LAB / "exploit"
CLASS = {
    "ada": CHECKOUT / "solutions" / LAB / "submission.py",
    "bob": CHECKOUT / "labs" / LAB / "submission.py",
    "eve": EXPLOITS / "cache_by_pointer.py",
}
PROJECT = "warplab-test"
LONGEST = 3600  # seconds: an image has the emulator compiled, which a busy machine takes long for


def run(*command: str, **environment: str) -> str:
    environ = os.environ | environment
    done = subprocess.run(command, cwd=CHECKOUT, env=environ, capture_output=True, text=True, timeout=LONGEST)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def compose() -> list[str]:
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0
    return [*(["docker", "compose"] if plugin else ["docker-compose"]), "-p", PROJECT]


@pytest.fixture(scope="module")
def images() -> None:
    """Both images, built from this checkout. A test that needs Docker fails where there is none."""
    assert shutil.which("docker"), "docker is not installed: sh scripts/docker_engine.sh COMMAND"
    for stage in ("capture", "judge"):
        base = f"BASE={os.environ['WARPLAB_BASE']}"
        arguments = ["-q", "--network=host", "--build-arg", base, "-f", "docker/Dockerfile", "--target", stage]
        run("docker", "build", *arguments, "-t", f"warplab-{stage}", ".", DOCKER_BUILDKIT="0")


@pytest.fixture
def desk(tmp_path: Path, images: None) -> Iterator[dict[str, str]]:
    """The settings of compose.yaml for a folder of submissions, and containers and volumes that are gone afterwards."""
    for student, source in CLASS.items():
        (tmp_path / "class" / student).mkdir(parents=True)
        shutil.copy(source, tmp_path / "class" / student / "submission.py")
    results = tmp_path / "results"
    results.mkdir()
    results.chmod(0o777)  # the judge is nobody of this machine
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    settings = {"SUBMISSIONS": str(tmp_path / "class"), "RESULTS": str(results), "LAB": LAB}
    settings |= {"WARPLAB_USER": "1000:1000", "JUDGE_MEMORY": "12g", "CAPTURE_MEMORY": "8g"}
    yield settings
    run(*compose(), "down", "--volumes", **settings)


def test_a_folder_is_graded_with_one_command(desk: dict[str, str]) -> None:
    said = run(*compose(), "up", "--exit-code-from", "judge", **desk)
    assert "Compiling the emulator" not in said  # the image has it
    with (Path(desk["RESULTS"]) / "results.csv").open() as opened:
        found = {row["student"]: row for row in csv.DictReader(opened)}
    assert {name: float(row["score"]) for name, row in found.items()} == {"ada": 70, "bob": 0, "eve": 0}
    assert found["ada"]["status"] == "passed"


def test_what_runs_has_no_more_than_compose_yaml_says(desk: dict[str, str]) -> None:
    run(*compose(), "up", "-d", "capture", **desk)
    name = run(*compose(), "ps", "-q", "capture", **desk).strip()
    found = json.loads(run("docker", "inspect", name))[0]
    host = found["HostConfig"]
    assert host["NetworkMode"] == "none" and host["ReadonlyRootfs"] and not host["Privileged"]
    assert host["CapDrop"] == ["ALL"] and not host["CapAdd"] and not host["Devices"] and not host["DeviceRequests"]
    assert any(option.startswith("no-new-privileges") for option in host["SecurityOpt"])
    assert any(option.startswith("seccomp=") and "landlock" in option for option in host["SecurityOpt"])
    assert host["PidsLimit"] == 128 and host["Memory"] == 8 << 30 and host["NanoCpus"] == 2_000_000_000
    mounts = {mount["Destination"]: mount["Type"] for mount in found["Mounts"]}
    assert mounts == {"/spool": "volume"} and found["Config"]["User"] == "capture"


_REACH = """
import ctypes, os, pathlib, socket
library = ctypes.CDLL(None, use_errno=True)

def call(name, *arguments):
    if getattr(library, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)

for what, attempt in {
    "connect": lambda: socket.create_connection(("1.1.1.1", 53), timeout=2),
    "write": lambda: pathlib.Path("/warplab/x").write_text("x"),
    "labs": lambda: os.listdir("/warplab/labs"),
    "judge": lambda: os.listdir("/warplab/autograder"),
    "class": lambda: os.listdir("/submissions"),
    "results": lambda: os.listdir("/results"),
    "engine": lambda: os.stat("/var/run/docker.sock"),
    "root": lambda: os.setuid(0),
    "namespace": lambda: call("unshare", 0x10000000),
    "mount": lambda: call("mount", 0, b"/tmp", 0, 0x1000, 0),
    "trace": lambda: call("ptrace", 16, 1, 0, 0),
}.items():
    try:
        attempt()
    except OSError:
        print(what, "no")
    else:
        print(what, "yes")
"""


def test_what_runs_in_the_capture_container_reaches_nothing(desk: dict[str, str]) -> None:
    said = run(*compose(), "run", "--rm", "--no-deps", "-T", "capture", "python", "-c", _REACH, **desk)
    answers = dict(line.rsplit(" ", 1) for line in said.strip().splitlines() if line.endswith((" yes", " no")))
    assert len(answers) == 11 and set(answers.values()) == {"no"}, said


def test_without_the_capture_container_nothing_is_graded(desk: dict[str, str]) -> None:
    command = [*compose(), "run", "--rm", "--no-deps", "-T", "judge", "class", "/submissions", "--out", "/results"]
    done = subprocess.run(
        [*command, "--lab", LAB, "--only", "ada"], cwd=CHECKOUT, env=os.environ | desk, capture_output=True, text=True
    )
    assert done.returncode != 0
    with (Path(desk["RESULTS"]) / "results.csv").open() as opened:
        found = {row["student"]: row["status"] for row in csv.DictReader(opened)}
    assert found["ada"] == "judge error"
