"""The processes that grade a class: on this machine, or as jobs of a Slurm cluster.

Jobs and this process talk over TLS with certificates made for the run: whoever else is on the cluster's network can
neither read hand-ins nor send work.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import msgspec
from distributed import Client, LocalCluster, get_worker
from distributed.security import Security

from autograder.classroom.entries import ClassError

_LOOKS_WITHOUT = 6
_ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}
# Reasons for which a job waits until somebody changes it (squeue's manual, "JOB REASON CODES").
_HOPELESS = {"PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "InvalidAccount", "InvalidQOS"}
_HOPELESS |= {"AccountNotAllowed", "QOSNotAllowed"}


@dataclass(frozen=True)
class SlurmJobs:
    """What is asked of Slurm: the table `[slurm]` of a TOML file. Each of `jobs` grades one submission at a time.

    `time` is hours:minutes:seconds, `memory` with a unit ("16GB"), `directives` further ones of sbatch
    ("--gres=gpu:1"), `skip` those of the script that this Slurm does not take ("--mem"), `prologue` lines of shell
    before a worker starts ("module load cuda"), `interface` the network's ("ib0"). `folder` is one that all nodes see,
    for the jobs' words and the run's certificates.
    """

    folder: str
    jobs: int = 1
    partition: str | None = None
    account: str | None = None
    time: str = "02:00:00"
    processors: int = 2
    memory: str = "18GB"
    directives: list[str] = field(default_factory=list)
    skip: list[str] = field(default_factory=list)
    prologue: list[str] = field(default_factory=list)
    interface: str | None = None


class Processes:
    """Dask's processes and what became of them."""

    def __init__(self, client: Client, jobs: Any = None) -> None:
        self.client, self._jobs = client, jobs
        self._looks_without = 0  # a job; it takes a moment until Dask has sent them

    def gone(self) -> str:
        """A sentence if no process is left and none will come, else nothing."""
        if self._jobs is None or self.client.scheduler_info()["workers"]:
            return ""
        names = [job.job_id for job in self._jobs.workers.values() if job.job_id]
        self._looks_without += not names
        if not names and self._looks_without < _LOOKS_WITHOUT:
            return ""
        states = _states(names) if names else []
        if states is None:
            return ""
        open_jobs = [reason for state, reason in states if state not in _ENDED]
        if open_jobs and set(open_jobs) <= _HOPELESS:
            return f"Slurm will never start these jobs ({', '.join(sorted(set(open_jobs)))}): ask for less in [slurm]."
        if open_jobs:
            return ""
        return "All jobs have ended before the class was graded: the same command goes on with what is left."


@contextmanager
def local(count: int) -> Iterator[Processes]:
    """`count` processes on this machine. Raises ClassError if one of them does not start."""
    with _ended_whole() as stack:
        try:
            with _interrupts_wait():
                cluster = stack.enter_context(
                    LocalCluster(
                        n_workers=count, threads_per_worker=1, processes=True, memory_limit=0,
                        silence_logs=logging.CRITICAL,
                        dashboard_address="127.0.0.1:0",  # any free port: another class may be graded on this machine
                    )
                )  # fmt: skip
                client = stack.enter_context(Client(cluster, set_as_default=False))
        except (RuntimeError, TimeoutError, OSError) as error:
            raise ClassError(
                f"A process that grades did not start ({error.__cause__ or error}): the same command tries again."
            ) from None
        yield Processes(client)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Let Ctrl-C wait: half a cluster cannot be ended. The processes that are started here never see it, nor do those
    that take their place later; `own_group` undoes that for what they start."""
    resource_tracker.ensure_running()  # which lets SIGINT through in the thread that starts it
    came: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    # Another thread may take the signal, and Python then answers it in this one: the mask is for what is started here.
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number)) if main else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if main:
            signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt


@contextmanager
def _ended_whole() -> Iterator[ExitStack]:
    """A stack whose end Ctrl-C does not cut short."""
    with ExitStack() as stack:
        try:
            yield stack
        finally:
            with _interrupts_wait():
                stack.close()


def own_group() -> None:
    """Take a process that grades out of the terminal's reach, and let SIGINT do in submissions what it does when they
    are graded alone."""
    if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        os.setpgid(0, 0)
        signal.sigtimedwait({signal.SIGINT}, 0)  # one that came before
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def slurm(asked: SlurmJobs, count: int) -> Iterator[Processes]:
    """At most `count` jobs of Slurm. Raises ClassError if dask-jobqueue or Slurm is missing, or takes no job."""
    try:
        from dask_jobqueue import SLURMCluster

        security = Security.temporary()
    except ImportError:
        raise ClassError('Slurm needs two packages: pip install -c constraints.txt -e ".[slurm]".') from None
    folder = Path(asked.folder).expanduser()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with _ended_whole() as stack:
            with _interrupts_wait():
                cluster = stack.enter_context(
                    SLURMCluster(
                        queue=asked.partition, account=asked.account, walltime=asked.time, cores=1, processes=1,
                        job_cpu=asked.processors, memory=asked.memory, job_extra_directives=list(asked.directives),
                        job_directives_skip=list(asked.skip), job_script_prologue=list(asked.prologue),
                        interface=asked.interface, log_directory=str(folder), shared_temp_directory=str(folder),
                        protocol="tls://", security=security, worker_extra_args=["--memory-limit", "0"],
                        scheduler_options={"dashboard": False}, silence_logs="critical",
                    )
                )  # fmt: skip
                client = stack.enter_context(Client(cluster, set_as_default=False))
            _require_that_jobs_are_taken(cluster.job_script())
            cluster.scale(jobs=min(asked.jobs, count))
            yield Processes(client, cluster)
    except FileNotFoundError as error:
        raise ClassError(f"{error.filename} is not here: run this where jobs are sent from.") from None


def _require_that_jobs_are_taken(script: str) -> None:
    """Have Slurm look at a job without sending it: what goes wrong when Dask sends one is not told."""
    done = subprocess.run(["sbatch", "--test-only"], input=script, capture_output=True, text=True)
    if done.returncode:
        raise ClassError(f"Slurm took no job: {' '.join(done.stderr.split())[:500]}")


def number_here() -> int:
    """The number of this process among those that Dask has started, from 0 on; 0 in any other."""
    try:
        name = str(get_worker().name)
    except ValueError:  # it is none of Dask's
        return 0
    found = re.search(r"\d+$", name)  # of Slurm's jobs: "SLURMCluster-3"
    return int(found.group()) if found else 0


def read_jobs(path: Path) -> SlurmJobs:
    """What the table `[slurm]` of the file asks for. Raises ClassError with what is wrong in it."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))["slurm"]
    except OSError as error:
        raise ClassError(f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ClassError(f"{path} is no TOML: {error}.") from None
    except KeyError:
        raise ClassError(f"{path} has no table [slurm].") from None
    known = [one.name for one in fields(SlurmJobs)]
    for name in table:
        if name not in known:
            raise ClassError(f"{path}: [slurm] has no setting {name!r} (there are {', '.join(known)}).")
    try:
        asked = msgspec.convert(table, SlurmJobs)
    except msgspec.ValidationError as error:
        raise ClassError(f"{path}: {error}.") from None
    if asked.jobs < 1 or asked.processors < 1:
        raise ClassError(f"{path}: jobs and processors are 1 at least.")
    return asked


def _states(names: list[str]) -> list[tuple[str, str]] | None:
    """State and reason of each job that Slurm still knows; None where it does not answer."""
    command = ["squeue", "--noheader", "--states", "all", "--format", "%T %r", "--jobs", ",".join(names)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return [] if "Invalid job id" in done.stderr else None
    pairs = [line.split(maxsplit=1) for line in done.stdout.splitlines() if line.strip()]
    return [(pair[0], pair[-1].strip()) for pair in pairs]
