"""The ways in which a process can be kept apart from its machine, and the command that starts it in each.

`warplab.plan.capture.escape_probe` and `warplab.sandbox.self_test` prove which of them a machine really has.
"""

from __future__ import annotations

import os
import shutil
import site
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path

import warplab

SCRATCH_SIZE = 512 << 20  # bytes of the files that a process may keep, where there is a file system of its own
_USER = "1000"  # any but root, inside
_NAME = "learner"  # as which libraries know it (`getpass.getuser`): no list of accounts has its number

# What the compilers need to be found; nothing else of the judge's environment is a submission's business.
_INHERITED = ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
_SYSTEM_PREFIXES = (Path("/usr"), Path("/usr/local"))
# Where programs find shared libraries and the compilers of a system-wide CUDA.
_LIBRARIES: tuple[str, ...] = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/etc/ld.so.cache")
_LIBRARIES += ("/etc/alternatives",)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")

_BEYOND_ENGINE = ("systems", "autograder", "course", "corpus", "benchmarks", "labs", "solutions")

# Warplab may run from a checkout, which -I does not look at. What a process may import is what the judge itself may,
# whatever folder it was started in: that folder may be full of downloads, one of them named like a module.
_BOOTSTRAP = """
import sys, site
root, _, module, keep, count, *rest = sys.argv[1:]  # the second is a name to be found by
packages, rest = rest[:int(count)], rest[int(count):]
sys.path[:] = [folder for folder in sys.path if folder not in packages]
for folder in packages:  # in the judge's own order: a folder on its PYTHONPATH may shadow what is installed
    site.addsitedir(folder)
sys.path.insert(0, root)
import importlib
program = importlib.import_module(module)
if not keep:
    sys.path.remove(root)
sys.argv = ["warplab", *rest]
program.main()
"""


class Isolation(StrEnum):
    """How far a process is kept from the machine, the strongest first. All have the limits of `confinement`."""

    BUBBLEWRAP = "bubblewrap"  # namespaces of its own: no network, no other process, a file system of what it needs
    LANDLOCK = "landlock"  # filters of the kernel, for containers and hosts without nested namespaces
    REDUCED = "reduced isolation"  # limits only: it could read what the judge can read


def weakest(*isolations: Isolation) -> Isolation:
    """The one of them that keeps the least."""
    order = list(Isolation)
    return max(isolations, key=order.index)


@dataclass(frozen=True)
class Program:
    """What runs in a sandbox: the `main()` of a module of this project, with these arguments.

    `name` is one that the process can be found by. `hidden` are folders that it does not see, though they lie in one
    that it sees. `readable` are files and folders that it sees beside Python and its
    packages, `writable` folders in which it may change files, `devices` the device files that it may use. With
    `keeps_project` the project's folder stays on its path.
    """

    module: str
    name: str
    arguments: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    processes: bool = False  # whether it has to see its own process's files in /proc
    keeps_project: bool = False
    environment: tuple[tuple[str, str], ...] = field(default=())
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Start:
    """How to start a process: the command, its folder and its environment."""

    command: list[str]
    folder: str
    environment: dict[str, str]


def start(isolation: Isolation, program: Program, scratch: str) -> Start:
    """The start of a confined process. `scratch` is an empty folder for it; bubblewrap gives it one of its own."""
    command = python_command(program)
    if isolation is Isolation.BUBBLEWRAP:
        return Start([*_bubblewrap(program), *command], scratch, _environment("/tmp") | dict(program.environment))
    return Start(command, scratch, _environment(scratch) | dict(program.environment))


def python_command(program: Program) -> list[str]:
    """Python with the program, isolated from the current folder, the user's settings and PYTHONPATH."""
    head = [sys.executable, "-I", "-B", "-c", _BOOTSTRAP, str(root()), program.name, program.module]
    packages = _packages()
    keep = "1" if program.keeps_project else ""
    return [*head, keep, str(len(packages)), *packages, *program.arguments]


def readable() -> tuple[str, ...]:
    """What a confined process has to read: Python, its packages, warplab, shared libraries and compilers.

    Folders, and single files where a folder would show too much.
    """
    folders = [Path(folder) for folder in _LIBRARIES]
    for prefix in (sys.base_prefix, sys.prefix, *(os.environ.get(name) for name in _INHERITED[:3])):
        folders += _installation(Path(prefix)) if prefix else []
    folders += [Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if _is_narrow(p)]
    folders += [Path("/usr/local/lib"), *Path("/usr/local").glob("cuda*")]
    folders += [Path(folder) for folder in _packages()]
    folders += [root() / "warplab", *_links(Path(sys.executable))]
    return with_real_places(str(path) for path in folders)


def with_real_places(paths: Iterable[str]) -> tuple[str, ...]:
    """Those of the paths that exist, and where they really are: libraries find each other by either name.

    What is below /proc is another thing for each process, and stays as it is named.
    """
    found = dict.fromkeys(path for path in paths if os.path.exists(path))
    return tuple(dict.fromkeys([*found, *(os.path.realpath(p) for p in found if not p.startswith("/proc"))]))


def project_beyond_engine() -> tuple[str, ...]:
    """The project's folders beside `warplab`, wherever they are installed: they can build what some labs ask for."""
    places = [root(), *(Path(folder) for folder in _packages())]
    return with_real_places(str(place / name) for place in places for name in _BEYOND_ENGINE)


def without(paths: Iterable[str], hidden: Sequence[str]) -> list[str]:
    """The paths, each folder that holds something hidden replaced by what else lies in it."""
    found: list[str] = []
    for path in paths:
        if path in hidden:
            continue
        if any(one.startswith(path.rstrip("/") + "/") for one in hidden):
            found += without((entry.path for entry in os.scandir(path)), hidden)
        else:
            found.append(path)
    return found


def devices() -> tuple[str, ...]:
    """The device files that any program may expect."""
    return _DEVICES


@cache
def root() -> Path:
    """The folder that warplab is imported from: a checkout, or where packages are installed."""
    return Path(warplab.__path__[0]).resolve().parent


@cache
def _packages() -> tuple[str, ...]:
    """Folders of installed packages that the judge imports from: Python's own and those of its PYTHONPATH.

    Not whatever is on sys.path: the folder that a command is started in can get there, and with it its files.
    """
    trusted = [*site.getsitepackages(), site.getusersitepackages(), sysconfig_purelib()]
    trusted += os.environ.get("PYTHONPATH", "").split(os.pathsep)
    places = {os.path.realpath(folder) for folder in trusted if folder and os.path.isabs(folder)}
    kept = (p for p in sys.path if p and p != str(root()) and os.path.realpath(p) in places)
    return tuple(p for p in kept if any(Path(p).glob("*.dist-info")))


def sysconfig_purelib() -> str:
    """Where this Python installs packages; in some distributions it is not among the places that `site` names."""
    import sysconfig

    return sysconfig.get_path("purelib")


def _installation(prefix: Path) -> list[Path]:
    """The folders of a Python or CUDA installation: all of it, unless it is a part of the system."""
    if prefix in _SYSTEM_PREFIXES:
        return [prefix / "bin", prefix / "lib", prefix / "lib64", prefix / "include"]
    return [prefix] if _is_narrow(str(prefix)) else []


def _is_narrow(path: str) -> bool:
    """Whether showing a folder shows neither everything nor the folder that the judge's own files lie in."""
    place = Path(path)
    if not place.is_absolute():
        return False
    place = place.resolve()
    private = [Path.home().resolve()]
    if not {"site-packages", "dist-packages"} & set(root().parts):  # a checkout, not an installed package
        private.append(root())
    return not any(place == folder or place in folder.parents for folder in private)


def _links(path: Path) -> list[Path]:
    """The chain of symbolic links that an executable is found through, and the file at its end."""
    chain = [path]
    while chain[-1].is_symlink() and len(chain) < 40:
        chain.append(Path(os.path.normpath(chain[-1].parent / os.readlink(chain[-1]))))
    return chain


def _bubblewrap(program: Program) -> list[str]:
    command = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--hostname", "warplab"]
    command += ["--cap-drop", "ALL", "--uid", _USER, "--gid", _USER]
    # first its own folder, then what it sees: a checkout may itself lie below /tmp
    command += ["--size", str(SCRATCH_SIZE), "--tmpfs", "/tmp", "--dev", "/dev"]
    command += ["--proc", "/proc"] if program.processes else []
    for path in _outermost((*readable(), *program.readable)):
        command += [] if path.startswith("/proc") else ["--ro-bind", path, path]  # of that it has its own
    for path in program.hidden:  # an empty folder of its own lies over it, if it would be seen at all
        if any(path.startswith(shown.rstrip("/") + "/") for shown in (*readable(), *program.readable)):
            command += ["--tmpfs", path, "--remount-ro", path]
    for path in program.writable:
        command += [] if path.startswith("/proc") else ["--bind", path, path]
    for path in program.devices:
        command += ["--dev-bind", path, path]
    command += ["--remount-ro", "/dev", "--chdir", "/tmp", "--remount-ro", "/", "--"]
    return command


def _outermost(paths: Sequence[str]) -> list[str]:
    """The paths that lie in no other one of them: mounts that would only repeat a larger one are left out."""
    ordered = sorted(set(paths))
    return [p for p in ordered if not any(p.startswith(o.rstrip("/") + "/") for o in ordered)]


def _environment(folder: str) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    known = {"HOME": folder, "TMPDIR": folder, "LOGNAME": _NAME, "LANG": "C.UTF-8", "PATH": os.defpath}
    return inherited | known
