"""The ways in which a capture process can be kept apart from its machine, and the command that starts it in each.

`breakout` proves which of them a machine really has.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

import warplab

SCRATCH_SIZE = 128 << 20  # bytes that a submission may keep in files of its own
_USER = "1000"  # any but root, inside

# What the compilers need to be found; nothing else of the judge's environment is the submission's business.
_INHERITED = ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
_SYSTEM_PREFIXES = (Path("/usr"), Path("/usr/local"))
# Where programs find shared libraries and the compilers of a system-wide CUDA.
_LIBRARIES: tuple[str, ...] = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/etc/ld.so.cache")
_LIBRARIES += ("/etc/alternatives",)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")

# Warplab may run from a checkout, which -I does not look at; its folder must not stay importable, as it holds more.
_BOOTSTRAP = """
import sys, site
root, _, *packages = sys.argv[1:]  # the second is a name to be found by
sys.path[:] = [folder for folder in sys.path if folder not in packages]
for folder in packages:  # in the judge's own order: a folder on its PYTHONPATH may shadow what is installed
    site.addsitedir(folder)
sys.path.insert(0, root)
import warplab.plan.child
sys.path.remove(root)
sys.argv = ["submission.py"]
warplab.plan.child.main()
"""


class Isolation(StrEnum):
    """How far a capture process is kept from the machine, the strongest first. All have the limits of `confinement`."""

    BUBBLEWRAP = "bubblewrap"  # namespaces of its own: no network, no other process, a file system of what it needs
    LANDLOCK = "landlock"  # filters of the kernel, for containers and hosts without nested namespaces
    REDUCED = "reduced isolation"  # limits only: it could read what the judge can read


@dataclass(frozen=True)
class Start:
    """How to start a capture process: the command, its folder and its environment."""

    command: list[str]
    folder: str
    environment: dict[str, str]


def start(isolation: Isolation, scratch: str) -> Start:
    """The start of a capture process. `scratch` is an empty folder for it; bubblewrap gives it one of its own."""
    if isolation is Isolation.BUBBLEWRAP:
        return Start([*_bubblewrap(), *_python(scratch)], scratch, _environment("/tmp"))
    return Start(_python(scratch), scratch, _environment(scratch))


def readable() -> tuple[str, ...]:
    """What a capture process has to read: Python, its packages, warplab, shared libraries and compilers.

    Folders, and single files where a folder would show too much.
    """
    folders = [Path(folder) for folder in _LIBRARIES]
    for prefix in (sys.base_prefix, sys.prefix, *(os.environ.get(name) for name in _INHERITED[:3])):
        folders += _installation(Path(prefix)) if prefix else []
    folders += [Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if _is_narrow(p)]
    folders += [Path("/usr/local/lib"), *Path("/usr/local").glob("cuda*")]
    folders += [Path(folder) for folder in _packages()]
    folders += [_root() / "warplab", *_links(Path(sys.executable))]
    found = dict.fromkeys(str(path) for path in folders if path.exists())
    # a folder beside its real place: libraries find each other by either name
    return tuple(dict.fromkeys([*found, *(os.path.realpath(path) for path in found)]))


def devices() -> tuple[str, ...]:
    """The device files that any program may expect."""
    return _DEVICES


@cache
def _root() -> Path:
    return Path(warplab.__path__[0]).resolve().parent


def _packages() -> list[str]:
    return [p for p in sys.path if p and p != str(_root()) and any(Path(p).glob("*.dist-info"))]


def _python(name: str) -> list[str]:
    return [sys.executable, "-I", "-B", "-c", _BOOTSTRAP, str(_root()), name, *_packages()]


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
    if not {"site-packages", "dist-packages"} & set(_root().parts):  # a checkout, not an installed package
        private.append(_root())
    return not any(place == folder or place in folder.parents for folder in private)


def _links(path: Path) -> list[Path]:
    """The chain of symbolic links that an executable is found through, and the file at its end."""
    chain = [path]
    while chain[-1].is_symlink() and len(chain) < 40:
        chain.append(Path(os.path.normpath(chain[-1].parent / os.readlink(chain[-1]))))
    return chain


def _bubblewrap() -> list[str]:
    program = shutil.which("bwrap") or "bwrap"
    command = [program, "--unshare-all", "--die-with-parent", "--hostname", "warplab"]
    command += ["--cap-drop", "ALL", "--uid", _USER, "--gid", _USER]
    for path in _outermost(readable()):
        command += ["--ro-bind", path, path]
    command += ["--dev", "/dev", "--remount-ro", "/dev"]
    command += ["--size", str(SCRATCH_SIZE), "--tmpfs", "/tmp", "--chdir", "/tmp", "--remount-ro", "/", "--"]
    return command


def _outermost(paths: tuple[str, ...]) -> list[str]:
    """The paths that lie in no other one of them: mounts that would only repeat a larger one are left out."""
    ordered = sorted(set(paths))
    return [p for p in ordered if not any(p.startswith(o.rstrip("/") + "/") for o in ordered)]


def _environment(folder: str) -> dict[str, str]:
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    single = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return (
        environment
        | dict.fromkeys(single, "1")
        | {
            "CUDA_VISIBLE_DEVICES": "",
            "HOME": folder,
            "TMPDIR": folder,
            "LANG": "C.UTF-8",
            "PATH": os.defpath,
            "NUMBA_CACHE_DIR": folder,
            "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
            "NUMBA_DISABLE_PERFORMANCE_WARNINGS": "1",
        }
    )
