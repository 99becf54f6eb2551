"""Grades every reference in a container like Gradescope's: `python -m benchmarks.gradescope` writes
benchmarks/results/gradescope.json; `python -m benchmarks.gradescope LAB...` renews only the records of these labs. It
needs a Docker engine and a base image with Python in its packages (WARPLAB_BASE): `sh scripts/docker_engine.sh python
-m benchmarks.gradescope` has both. No GPU.

The container is set up by the autograder's own setup.sh and has half a processor and 768 MB, Gradescope's smallest.
`time` is the wall time of run_autograder, with the load of the machine before it beside it; a Gradescope submission
ends after ten minutes.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from autograder.platforms.bundle import gradescope_inside
from autograder.spec.lab import CHECKOUT, find_any, known_labs, solutions_folder
from course import results
from course.results import Record

COMMAND = "sh scripts/docker_engine.sh python -m benchmarks.gradescope"
IMAGE = "warplab-gradescope"
PROCESSORS, MEMORY = "0.5", "768m"
LIMIT = 600  # seconds
_SET_UP = """\
FROM {base}
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates
COPY certificates/ /usr/local/share/ca-certificates/
RUN update-ca-certificates
COPY source /autograder/source
RUN cp /autograder/source/run_autograder /autograder/ && mkdir -p /autograder/submission /autograder/results
RUN PIP_CERT=/etc/ssl/certs/ca-certificates.crt bash /autograder/source/setup.sh
WORKDIR /autograder
"""


def main(names: Sequence[str]) -> None:
    """Build, grade and write the labs called `names`, or all labs if there are no names."""
    path, header = results.DIRECTORY / "gradescope.json", results.make_header(" ".join([COMMAND, *names]))
    records: list[Record] = []
    for record in measure(names or known_labs()):
        records.append(record)
        results.write(path, header, records, merge=bool(names))
    print(f"Written: {path}")


def build(lab: str) -> None:
    """The image that Gradescope would build of the autograder for a lab."""
    with tempfile.TemporaryDirectory(prefix="warplab-gradescope-") as name:
        folder = Path(name)
        with zipfile.ZipFile(io.BytesIO(gradescope_inside(find_any(lab)))) as archive:
            archive.extractall(folder / "source")
        (folder / "source" / "run_autograder").chmod(0o755)
        shutil.copytree(CHECKOUT / "docker" / "certificates", folder / "certificates")
        (folder / "Dockerfile").write_text(_SET_UP.format(base=os.environ["WARPLAB_BASE"]))
        _docker("build", "-q", "--network=host", "-t", IMAGE, str(folder))


def measure(labs: Sequence[str]) -> Iterator[Record]:
    """A record a lab: its Numba reference, graded in a container of its own, of an image for all labs that need the
    same packages."""
    ready = b""
    for lab in sorted(labs, key=_packages):
        if _packages(lab) != ready:
            build(lab)
            ready = _packages(lab)
        load = os.getloadavg()[0]
        seconds, found = grade(lab, solutions_folder() / lab / "submission.py")
        print(f"{lab}: {seconds:.0f} s, {found['score']:g} points", flush=True)
        points = {"score": found["score"], "max_score": found["extra_data"].get("max_score")}
        conditions = {"processors": float(PROCESSORS), "memory": MEMORY, "load_before": round(load, 1)}
        yield Record(lab, "time", seconds, "s", extra=points | conditions)


def _packages(lab: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(gradescope_inside(find_any(lab)))) as archive:
        return archive.read("requirements.txt")


def grade(lab: str, source: Path) -> tuple[float, dict]:
    """Seconds that run_autograder took for a submission, and the results that it left."""
    with tempfile.TemporaryDirectory(prefix="warplab-gradescope-") as name:
        folder = Path(name)
        shutil.copytree(CHECKOUT / "labs" / lab, folder / "labs" / lab)
        (folder / "settings").write_text(f"mode=inside lab={lab}\n")
        limits = ("--cpus", PROCESSORS, "--memory", MEMORY, "--memory-swap", MEMORY)
        container = _docker("create", *limits, IMAGE, "/autograder/run_autograder").strip()
        try:
            _docker("cp", str(folder / "labs"), f"{container}:/autograder/source")
            _docker("cp", str(folder / "settings"), f"{container}:/autograder/source/settings")
            _docker("cp", str(source), f"{container}:/autograder/submission/submission.py")
            start = time.perf_counter()
            subprocess.run(["docker", "start", "-a", container], capture_output=True, timeout=LIMIT)
            seconds = time.perf_counter() - start
            _docker("cp", f"{container}:/autograder/results/results.json", str(folder / "results.json"))
            return seconds, json.loads((folder / "results.json").read_text())
        finally:
            _docker("rm", "-f", container)


def _docker(*arguments: str) -> str:
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, env=os.environ | {"DOCKER_BUILDKIT": "0"}
    )
    if done.returncode:
        raise SystemExit(f"docker {arguments[0]}: {done.stderr.strip()[-500:]}")
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1:])
