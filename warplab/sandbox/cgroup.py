"""A control group for a process and all that it starts: memory and processes are bounded together, not one by one.

Linux with control groups that this user may divide: version 2, or version 1's memory and pids controllers
(Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/ of the kernel). Elsewhere there is none, and limits of single
processes have to do (`confinement`).
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MOUNT = Path("/sys/fs/cgroup")
_JOIN = 'n=$1; shift; while [ $n -gt 0 ]; do echo 0 >"$1/cgroup.procs" || exit 125; shift; n=$((n-1)); done; exec "$@"'
_SECONDS_TO_END = 5.0


@dataclass(frozen=True)
class ControlGroup:
    """One group; `folders` has one folder for each hierarchy that it is in."""

    folders: tuple[Path, ...]

    def command(self, command: Sequence[str]) -> list[str]:
        """The command, as one that joins the group before it does anything else."""
        return ["/bin/sh", "-c", _JOIN, "sh", str(len(self.folders)), *map(str, self.folders), *command]

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has ended a process of the group for its memory."""
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with suppress(OSError, ValueError):
                    words = dict(line.split() for line in (folder / name).read_text().splitlines())
                    if int(words.get("oom_kill", 0)):
                        return True
        return False

    def remove(self) -> None:
        """End whatever is left in the group, and the group."""
        deadline = time.monotonic() + _SECONDS_TO_END
        for folder in self.folders:
            while folder.exists():
                for process in _processes(folder):
                    with suppress(OSError):
                        os.kill(process, signal.SIGKILL)
                with suppress(OSError):  # busy until its last process is gone
                    folder.rmdir()
                    break
                if time.monotonic() > deadline:
                    break
                time.sleep(0.005)


def make(memory: int, processes: int) -> ControlGroup | None:
    """A new group with at most `memory` bytes and `processes` processes and threads; None where that cannot be had."""
    name = f"warplab-{os.getpid()}-{secrets.token_hex(4)}"
    ours = _membership()
    if "memory" in ours and "pids" in ours:
        return _made(
            name,
            (_MOUNT / "memory" / ours["memory"].lstrip("/"), {"memory.limit_in_bytes": memory}),
            (_MOUNT / "pids" / ours["pids"].lstrip("/"), {"pids.max": processes}),
        )
    if "" in ours:
        own = _MOUNT / ours[""].lstrip("/")
        # a group that has processes of its own cannot be divided; then one beside it, where that is allowed
        for parent in (own, own.parent):
            if parent.is_relative_to(_MOUNT) and _divided(parent):
                limits = {"memory.max": memory, "pids.max": processes}
                if group := _made(name, (parent, limits)):
                    return group
    return None


def _made(name: str, *wanted: tuple[Path, Mapping[str, int]]) -> ControlGroup | None:
    made: list[Path] = []
    try:
        for parent, limits in wanted:
            (parent / name).mkdir()
            made.append(parent / name)
            for file, value in limits.items():
                (parent / name / file).write_text(str(value))
    except OSError:
        ControlGroup(tuple(made)).remove()
        return None
    return ControlGroup(tuple(made))


def _membership() -> Mapping[str, str]:
    """The path of this process's group by controller; version 2 is the controller without a name."""
    found: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            found |= dict.fromkeys(controllers.split(","), path)
    return found


def _divided(folder: Path) -> bool:
    """Whether groups below this one, of version 2, have the controllers that are needed; asks for them if not."""
    control = folder / "cgroup.subtree_control"
    try:
        if not {"memory", "pids"} <= set(control.read_text().split()):
            control.write_text("+memory +pids")  # works only for the user that the group was handed to
        return {"memory", "pids"} <= set(control.read_text().split())
    except OSError:
        return False


def _processes(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []
