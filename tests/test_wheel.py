"""The wheel in environments that have nothing else of the project: no checkout, no Jupyter, no index."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from tests.emulator.saxpy import SAXPY
from warplab import __version__

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parent.parent
SIX = ("numpy", "numba", "llvmlite", "msgspec", "platformdirs", "filelock")
ABSENT = ("IPython", "cloudpickle", "cuda", "cupy", "jinja2", "matplotlib", "pygments", "rich", "torch")
OBJECTS = {"warplab/emulator/objects/manifest.json": "{}", "warplab/emulator/objects/x86-64-v3/loop.o": ""}
PROGRAM = """
import importlib.util, sys
import numpy as np
import warplab
assert not [name for name in {absent!r} if importlib.util.find_spec(name)]
x, y = np.arange(1000, dtype=np.float32), np.full(1000, 0.5, np.float32)
result = warplab.emulate(sys.argv[1], "saxpy", grid=8, block=128, args=(2.0, x, y, 1000))
assert np.array_equal(result.outputs["y"], 2 * x + y) and result.findings == ()
assert result.counters.global_load_sectors == 250 and result.profile().block == (0, 0, 0)
assert "ld.global.f32" in str(result)
try:
    warplab.run
except ImportError as missing:
    assert "pip install 'warplab[cuda]'" in str(missing)
else:
    raise AssertionError
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of a copy of the tree, so that nothing is left in it."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "tree"
    skipped = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "objects")
    for name in ("warplab", "systems", "autograder", "course"):
        shutil.copytree(ROOT / name, copy / name, ignore=skipped)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for (
        name,
        text,
    ) in OBJECTS.items():  # as build_objects would write them, in minutes; of no part, so that none is used
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(text)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "--no-build-isolation"]
    done = subprocess.run([*command, "--wheel-dir", str(folder), str(copy)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


def environment(folder: Path, wheel: Path, distributions: tuple[str, ...]) -> Path:
    """A Python in which the wheel is installed, with links to some distributions of this one."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    here = Path(sysconfig.get_path("purelib"))
    for name in distributions:
        files = metadata.distribution(name).files or ()
        for top in {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}:
            os.symlink(here / top, site / top)
    return python


def run(python: Path, *words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "WARPLAB_CACHE", "TMPDIR") if name in os.environ}
    command = [str(python), "-P", "-s", *words]
    return subprocess.run(command, env=kept | variables, cwd=folder, capture_output=True, text=True)


def test_six_packages_are_enough_for_a_kernel_in_ptx(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "python", wheel, SIX)
    (tmp_path / "kernel.ptx").write_text(SAXPY)
    np.save(tmp_path / "x.npy", np.ones(1000, np.float32))
    done = run(python, "-c", PROGRAM.format(absent=ABSENT), "kernel.ptx", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    launch = ["--entry", "saxpy", "--grid", "8", "--block", "128"]
    arguments = [word for value in ("2.0", "x.npy", "x.npy", "1000") for word in ("--arg", value)]
    done = run(python, "-m", "warplab", "run", "kernel.ptx", *launch, *arguments, folder=tmp_path)
    assert done.returncode == 0 and "saxpy, grid (8, 1, 1)" in done.stdout, done.stderr
    (tmp_path / "own.py").write_text("def main():\n    pass\n")
    done = run(python, "-m", "warplab", "run", "own.py", folder=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("warplab run: warplab.run_file records kernels with CUDA's")
    done = run(python, "-m", "autograder", "labs", folder=tmp_path)
    assert done.returncode == 2 and "pip install 'warplab[grader,cuda]'" in done.stderr


def test_the_wheel_grades_in_a_folder_with_labs_and_runs_a_file(wheel: Path, tmp_path: Path) -> None:
    """With the extras: in front of the packages of this Python."""
    python, installed = Path(sys.executable), tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    course = tmp_path / "course"
    shutil.copytree(ROOT / "labs" / "01_axpy", course / "labs" / "01_axpy")
    shutil.copy(ROOT / "solutions" / "01_axpy" / "submission.py", course / "labs" / "01_axpy")
    variables = {"PYTHONPATH": str(installed)}
    done = run(python, "-c", "import autograder; print(autograder.__file__)", folder=course, **variables)
    assert done.stdout.startswith(str(installed)), done.stderr
    words = ("-m", "autograder", "check", "--device", "emulator", "labs/01_axpy/submission.py")
    done = run(python, *words, folder=course, **variables)
    assert done.returncode == 0 and "70/70 points" in done.stdout, done.stdout + done.stderr
    done = run(python, "-m", "autograder", "release", "--out", "students", folder=course, **variables)
    assert done.returncode == 2 and "is no checkout of the project" in done.stderr, done.stdout + done.stderr
    (course / "own.py").write_text(OWN)
    done = run(python, "-m", "warplab", "run", "own.py", folder=course, **variables)
    assert done.returncode == 0 and "double, grid (2, 1, 1)" in done.stdout, done.stderr


OWN = """
import numpy as np
from numba import cuda

@cuda.jit
def double(x):
    i = cuda.grid(1)
    x[i] = 2 * x[i]

def main():
    x = cuda.to_device(np.ones(64, np.float32))
    double[2, 32](x)
    return x.copy_to_host()
"""


def test_the_wheel_has_the_engine_the_systems_and_the_grader_with_their_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    packages = {name.split("/")[0] for name in names if not re.match(r"warplab-[^/]*\.(dist-info|data)/", name)}
    assert packages == {"warplab", "systems", "autograder"}
    folders = [ROOT / name for name in ("warplab", "systems", "autograder")]
    ours = {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and not {"__pycache__", "objects"} & set(path.parts)
    }
    assert ours | OBJECTS.keys() <= names, sorted(ours - names)


def test_jupyterlab_finds_the_panel_where_the_wheel_is_installed(wheel: Path) -> None:
    panel = ROOT / "autograder" / "panel"
    extension = panel / "labextensions" / "warplab"
    expected = {
        f"share/jupyter/labextensions/{path.relative_to(extension.parent)}": path for path in extension.rglob("*")
    }
    settings = "jupyter_server_config.d/warplab.json"
    expected[f"etc/jupyter/{settings}"] = panel / "config" / settings
    with zipfile.ZipFile(wheel) as archive:
        found = {re.sub(r"^[^/]*\.data/data/", "", name): archive.read(name) for name in archive.namelist()}
    assert {name: found.get(name) for name, path in expected.items() if path.is_file()} == {
        name: path.read_bytes() for name, path in expected.items() if path.is_file()
    }
    assert len(expected) > 3 and json.loads((extension / "package.json").read_text())["version"] == __version__
