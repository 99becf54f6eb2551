"""How long a class takes: `python -m benchmarks.class_grading` writes benchmarks/results/class.json. No GPU is needed.
With `--gpu` it is graded on one, into class_gpu.json; where there are several, on all of them, into class_gpus.json.

Two hundred students hand in lab 03 or lab 06, in the shares of SHARES: right and slow kernels of the solutions and the
corpus, wrong ones of the corpus, host code and kernels that never end, crashes. `autograder class` grades them on the
emulator with two processes, from an empty record. Then each different submission is graded alone, in this process,
with the same seeds: `different` counts the students whose status, points or parts differ from that. On a GPU points for
efficiency are measured: they may differ by what two measurements do, so the largest difference is a record of its own,
and only right and slow submissions are graded alone. There each lab's reference is graded once before, as an instructor
would to see that it works: what a GPU's first grade compiles is not the class's time. How busy the GPU was is what
nvidia-smi says of each half second: the part of it in which a kernel ran. Of several it is the mean.

Processor time is that of the whole machine while the class is graded: run it where nothing else does. With
`--submissions` another number is graded to try it, and nothing is written.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from autograder.classroom.command import MOST_ON_A_GPU
from autograder.classroom.one import grade_one
from autograder.records.status import Part
from autograder.spec.lab import CHECKOUT, solutions_folder
from benchmarks import known_class
from benchmarks.known_class import Kind
from course import results
from course.results import Record
from warplab.hardware.device import alike

COMMAND = "python -m benchmarks.class_grading"
FILE, GPU_FILE = results.DIRECTORY / "class.json", results.DIRECTORY / "class_gpu.json"
GPUS_FILE = results.DIRECTORY / "class_gpus.json"
LABS = ("03_transpose", "06_tiled_gemm")
SUBMISSIONS, PROCESSES = 200, 2
SHARES = {"correct": 0.4, "slow": 0.2, "wrong": 0.25, "hanging": 0.05, "crashing": 0.1}
SLOWEST_RUNGS = ("rung_1_*.py", "rung_2_*.py")

_HANGING = {
    "host code without end": "def {function}(*arguments):\n    while True:\n        pass\n",
    "kernel without end": """\
from numba import cuda


@cuda.jit
def endless(out):
    while out.shape[0] > 0:
        out[0, 0] += 1


def {function}(*arguments):
    endless[1, 32](arguments[-1])
""",
}
_CRASHING = {
    "host code that raises": "def {function}(*arguments):\n    return 1 // 0\n",
    "host code that kills its process": """\
import os
import signal


def {function}(*arguments):
    os.kill(os.getpid(), signal.SIGSEGV)
""",
    "kernel that stores far outside": """\
from numba import cuda


@cuda.jit
def astray(out):
    out[out.shape[0] + 1000000 + cuda.threadIdx.x, 0] = 1


def {function}(*arguments):
    astray[1, 32](arguments[-1])
""",
}


def kinds(lab: str) -> dict[str, list[Kind]]:
    """The submissions of a lab by sort."""
    function = known_class.function(lab)
    slow = [path for pattern in SLOWEST_RUNGS for path in sorted((solutions_folder() / lab).glob(pattern))]
    made = {
        sort: [Kind(sort, lab, name, text.format(function=function)) for name, text in texts.items()]
        for sort, texts in (("hanging", _HANGING), ("crashing", _CRASHING))
    }
    return made | {
        "correct": known_class.references(lab) + known_class.corpus("correct", lab),
        "slow": [known_class.kind("slow", lab, path) for path in slow],
        "wrong": known_class.corpus("wrong", lab),
    }


def students(count: int) -> dict[str, Kind]:
    """Who hands in what, the same for every run: the sorts in their shares, labs in turns, in a drawn order."""
    by_lab = {lab: kinds(lab) for lab in LABS}
    chosen: list[Kind] = []
    for sort, share in SHARES.items():
        for number in range(max(1, round(share * count))):
            of_sort = by_lab[LABS[number % len(LABS)]][sort]
            chosen.append(of_sort[number // len(LABS) % len(of_sort)])
    random.Random(2025).shuffle(chosen)
    return {f"student_{number:03}": one for number, one in enumerate(chosen)}


def measure(count: int, gpu: bool) -> Iterator[Record]:
    """Grade a class of `count` students, then each different submission alone; a record a number."""
    handed_in = students(count)
    with tempfile.TemporaryDirectory(prefix="warplab-known-class-") as name:
        submissions, out = Path(name, "class"), Path(name, "out")
        known_class.hand_in(submissions, handed_in)
        gpus = len(alike()) if gpu else 0
        processes = MOST_ON_A_GPU * gpus if gpu else PROCESSES
        command = known_class.command(submissions, out, f"--processes={processes}", device="gpu" if gpu else "emulator")
        if gpu:
            for lab in LABS:
                grade_one("submission.py", known_class.references(lab)[0].text.encode(), lab, 0, "gpu", False)
        load, busy, start = os.getloadavg()[0], _busy(), time.perf_counter()
        with ExitStack() as stack:
            kernels_ran = stack.enter_context(_watched()) if gpu else []
            done = subprocess.run(command, cwd=CHECKOUT, env=known_class.environment(), capture_output=True, text=True)
        seconds, busy = time.perf_counter() - start, _busy() - busy
        if done.returncode:
            raise SystemExit(f"The class was not graded: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        conditions = {"submissions": len(handed_in), "processes": processes, "load_before": round(load, 1)}
        conditions |= {"gpus": gpus} if gpu else {}
        if gpu:
            yield Record("class", "GPU busy", sum(kernels_ran) / len(kernels_ran), "%", extra=conditions)
        yield Record("class", "time", seconds, "s", extra=conditions)
        yield Record("class", "rate", 60 * len(handed_in) / seconds, "submissions/min", extra=conditions)
        yield Record("class", "processor time of a submission", busy / len(handed_in), "s", extra=conditions)
        found = known_class.lines(out)
        for sort in SHARES:
            taken = [found[student].seconds for student, one in handed_in.items() if one.sort == sort]
            if taken:
                extra = {"submissions": len(taken), "longest": max(taken)}
                yield Record("class", "mean time of a submission", sum(taken) / len(taken), "s", sort, extra=extra)
        if gpu:
            yield from _beside_alone(handed_in, out)
            return
        differ = known_class.differences(handed_in, out)
        alone = {"graded_alone": len(set(handed_in.values()))}
        yield Record("class", "different", len(differ), "students", extra=alone | {"who": differ})


def _beside_alone(handed_in: Mapping[str, Kind], out: Path) -> Iterator[Record]:
    """How the points of right and slow submissions differ from those that they get alone on this GPU."""
    timed = {student: one for student, one in handed_in.items() if one.sort in ("correct", "slow")}
    truth, found = known_class.alone(dict.fromkeys(timed.values()), out, "gpu"), known_class.lines(out)
    alone, most, who = {"graded_alone": len(truth)}, 0.0, []
    for student, one in timed.items():
        got = known_class.verdict(found[student].report)
        pairs = list(zip(got.parts, truth[one].parts, strict=False))
        same = len(got.parts) == len(truth[one].parts)
        if not same or any(a != b for a, b in pairs if a[0] != Part.EFFICIENCY):
            who.append(f"{student} ({one.name}): {got} instead of {truth[one]}")
        most = max([most, *(abs(a[2] - b[2]) for a, b in pairs if a[0] == Part.EFFICIENCY)])
    yield Record("class", "largest difference of efficiency", most, "points", extra=alone)
    yield Record("class", "different", len(who), "students", extra=alone | {"who": who})


@contextmanager
def _watched() -> Iterator[list[float]]:
    """Percent of each half second in which a kernel ran, as nvidia-smi says, while the block runs."""
    seen: list[float] = []
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "500"]
    command += ["-i", ",".join(device.uuid for device in alike())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as said:
        assert said.stdout is not None
        reader = threading.Thread(target=lambda: seen.extend(float(line) for line in said.stdout or ()))
        reader.start()
        try:
            yield seen
        finally:
            said.terminate()
            reader.join()


def _busy() -> float:
    """Seconds that the machine's processors have worked since it started (proc(5), /proc/stat)."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split(None, 8)[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Grade, say what came of it and write; 1 if a student got something else than alone."""
    parser = argparse.ArgumentParser(description="How long a class takes.")
    parser.add_argument("--submissions", type=int, default=SUBMISSIONS, help="another number is not written")
    parser.add_argument("--gpu", action="store_true", help="on the GPUs of this machine")
    options = parser.parse_args()
    header, records = results.make_header(COMMAND + (" --gpu" if options.gpu else "")), []
    on_gpus = GPUS_FILE if len(alike()) > 1 else GPU_FILE
    for record in measure(options.submissions, options.gpu):
        records.append(record)
        if options.submissions == SUBMISSIONS:  # whoever ends it early keeps what there is
            results.write(on_gpus if options.gpu else FILE, header, records)
        print(f"{record.metric} {record.variant}: {record.value:.2f} {record.unit} {record.extra}", flush=True)
    return int(records[-1].value > 0)


if __name__ == "__main__":
    sys.exit(main())
