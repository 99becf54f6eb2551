"""The repository's own promises: one set of versions, commands that exist, numbers in one shape, nothing private."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from course import results
from warplab import __version__

pytestmark = pytest.mark.pages

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
SETUP = ROOT / "scripts" / "setup.sh"
# Addresses of package indexes, and paths of the machine that this was written on, have no place in the project.
PRIVATE = re.compile(
    r"/(?:home|root|Users)/\w|(?:pypi|pythonhosted|download\.pytorch)\.org|--(?:extra-)?index-url|--find-links|file:///|"
    + re.escape(f"{ROOT}/"),
)
MOST_FILES = 25  # of Python in a folder that gives no reason for more
FULL_OF_SUBMISSIONS = {
    "corpus/judge/submissions/01_axpy/exploit": "what attacks the judge and no lab is written for the first lab",
}
SKIPPED = {".git", ".venv", "build", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"}


# The distributions that provide each name that a module imports; one of several is enough, as for the two toolkits.
PROVIDED_BY = {
    "IPython": {"ipython"},
    "PIL": {"pillow"},
    "cloudpickle": {"cloudpickle"},
    "cuda.bindings": {"cuda-bindings"},
    "cuda.core": {"cuda-core"},
    "cuda.pathfinder": {"cuda-core"},  # which needs cuda-pathfinder
    "cupy": {"cupy-cuda12x", "cupy-cuda13x"},
    "cupyx": {"cupy-cuda12x", "cupy-cuda13x"},
    "dask_jobqueue": {"dask-jobqueue"},
    "distributed": {"distributed"},
    "filelock": {"filelock"},
    "hypothesis": {"hypothesis"},
    "ipywidgets": {"ipywidgets"},
    "jinja2": {"jinja2"},
    "markupsafe": {"markupsafe"},
    "jsonschema": {"jsonschema"},
    "jupyter_server": {"jupyterlab"},  # which needs it
    "jupytext": {"jupytext"},
    "llvmlite": {"llvmlite"},
    "matplotlib": {"matplotlib"},
    "msgspec": {"msgspec"},
    "nbclient": {"nbclient"},
    "nbconvert": {"nbconvert"},
    "nbformat": {"nbformat"},
    "nbgrader": {"nbgrader"},
    "numba": {"numba"},
    "numba.cuda": {"numba-cuda"},
    "numpy": {"numpy"},
    "nvidia": {"cuda-toolkit"},  # its parts: nvidia.cu13
    "platformdirs": {"platformdirs"},
    "pygments": {"pygments"},
    "pynvml": {"nvidia-ml-py"},
    "pytest": {"pytest"},
    "rich": {"rich"},
    "sphinx": {"sphinx-book-theme"},  # which needs Sphinx
    "torch": {"torch"},
    "tornado": {"jupyterlab"},  # which needs it
    "triton": {"triton"},
    "yaml": {"pyyaml"},
}


def tracked_files() -> list[Path]:
    """What git would publish; without git, every file outside the folders that are made here."""
    git = shutil.which("git")
    if git and (ROOT / ".git").exists():
        command = [git, "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
        return [ROOT / name for name in listed if name and (ROOT / name).is_file()]
    return [p for p in ROOT.rglob("*") if p.is_file() and not SKIPPED & set(p.relative_to(ROOT).parts)]


def distribution(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match, requirement
    return match[0].lower()


def pins(file: str = "constraints.txt") -> dict[str, str]:
    lines = (line.split("#")[0].strip() for line in (ROOT / file).read_text().splitlines())
    pairs = [line.split("==") for line in lines if line]
    assert all(len(pair) == 2 for pair in pairs), f"{file} must hold pins (name==version) only"
    return {name.lower(): version for name, version in pairs}


def requirements() -> list[str]:
    extras = PROJECT["optional-dependencies"].values()
    rows = [*PROJECT["dependencies"], *(r for extra in extras for r in extra)]
    return [row for row in rows if not row.startswith("warplab[")]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))


def test_what_make_test_samples_is_whole_in_make_test_long() -> None:
    recipe = MAKEFILE.split("\ntest-long:")[1].split("\n\n")[0]
    taken = [ROOT / name for name in re.findall(r"\btests/\S+", recipe)]
    imports = re.compile("^from tests.sampling import", re.MULTILINE)
    sampled = [path for path in (ROOT / "tests").rglob("test_*.py") if imports.search(path.read_text("utf-8"))]
    assert len(sampled) > 20 and all(place.exists() for place in taken)
    assert [str(path) for path in sampled if not any(path.is_relative_to(place) for place in taken)] == []


def test_every_direct_dependency_is_pinned() -> None:
    names, pinned = {distribution(r) for r in requirements()}, pins()
    for extra in ("cu12", "cu13"):  # each with constraints of its own, which agree with its ranges
        own = pins(f"constraints-{extra}.txt")
        assert own.keys() <= {distribution(r) for r in PROJECT["optional-dependencies"][extra]} - pinned.keys()
        assert all(version.startswith(extra.removeprefix("cu") + ".") for version in own.values())
        names -= own.keys()
    assert names - pinned.keys() == set()
    assert pinned.keys() - names == set()


def imported(tree: ast.AST) -> set[str]:
    """The modules that a file imports, wherever it does; of `from a import b` a.b, which may be one."""
    nodes = list(ast.walk(tree))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    found = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return plain | {f"{node.module}.{alias.name}" for node in found for alias in node.names}


def provided(module: str) -> str | None:
    """The longest name of PROVIDED_BY that `module` is or lies in."""
    parts = module.split(".")
    beginnings = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((name for name in beginnings if name in PROVIDED_BY), None)


def test_every_import_is_of_a_declared_dependency() -> None:
    declared = {distribution(r) for r in requirements()}
    ours = {path.name for path in ROOT.iterdir() if path.is_dir()} | set(sys.stdlib_module_names)
    used, undeclared = set(), set()
    for path in tracked_files():
        if path.suffix != ".py" or path.parent.name == "bad_input":  # submissions that cannot be imported
            continue
        modules = imported(ast.parse(path.read_text(encoding="utf-8")))
        for module in (module for module in modules if module.split(".")[0] not in ours):
            name = provided(module)
            if name is None or not PROVIDED_BY[name] & declared:
                undeclared.add(f"{path.relative_to(ROOT)}: {module}")
            used |= {name}
    assert undeclared == set()
    assert used == PROVIDED_BY.keys(), "a name is here that nothing imports"


def test_triton_is_installed_for_nobody_who_did_not_ask() -> None:
    extras = PROJECT["optional-dependencies"]
    having = {extra for extra, needs in extras.items() if "triton" in {distribution(r) for r in needs}}
    assert having == {"triton"} and all("linux" in r for r in extras["triton"])
    files = ("Makefile", "scripts/setup.sh", "environment.yml", "docker/Dockerfile", "compose.yaml", ".ci/run")
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    for path in [*(ROOT / name for name in files), *workflows]:
        assert "triton" not in path.read_text(encoding="utf-8"), path


def test_pins_keep_the_promises_of_pyproject() -> None:
    pinned = pins()
    assert tuple(map(int, pinned["numpy"].split(".")[:2])) < (2, 5)


def test_conda_installs_the_same_versions() -> None:
    text = (ROOT / "environment.yml").read_text()
    assert "-c constraints.txt" in text and "-e .[dev,torch,cu13]" in text
    versions = re.search(r"python (\S+)", text)
    assert versions and versions[1] == PROJECT["requires-python"]
    assert "==" not in text, "versions belong in constraints.txt alone"


def test_the_versions_agree() -> None:
    assert PROJECT["version"] == __version__
    assert PROJECT["requires-python"] == ">=3.11,<3.14"
    assert "(3, 11) <= sys.version_info[:2] <= (3, 13)" in SETUP.read_text()


def test_the_changelog_begins_with_this_version() -> None:
    from scripts.release_notes import notes

    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\S+)$", changelog, re.MULTILINE)[1] == __version__  # type: ignore[index]
    assert len(notes(changelog, __version__)) > 1000 and notes(changelog, "9.9.9") == ""


def test_the_running_packages_are_the_pinned_ones() -> None:
    from importlib.metadata import PackageNotFoundError, version

    different = {}
    for name, pinned in pins().items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            continue  # an extra that is not installed
        if installed.split("+")[0] != pinned:  # "+cpu" says for which device a version was built
            different[name] = f"{installed} instead of {pinned}"
    if different and os.environ.get("VIRTUAL_ENV") is None and Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
        pytest.skip(f"another Python's packages: {different}")
    assert different == {}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md"])
def test_commands_in_documents_exist(name: str) -> None:
    named = set(re.findall(r"(?:^ {4}|`)make ([a-z][a-z-]*)", (ROOT / name).read_text(), re.MULTILINE))
    assert named <= targets()


def test_the_readme_names_both_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert "    make grade " in text and "    make test " in text


def test_the_readme_counts_chapters_and_labs() -> None:
    chapters = len(list((ROOT / "notebooks").glob("[0-9]*.ipynb")))
    labs = len(list((ROOT / "labs").glob("*/lab.toml")))
    assert f"{chapters} notebooks and {labs} labs" in (ROOT / "README.md").read_text()


def test_relative_links_in_documents_lead_somewhere() -> None:
    broken = []
    for document in [*ROOT.glob("*.md"), ROOT / "benchmarks" / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text(), flags=re.DOTALL)  # code has brackets of its own
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
            if "://" not in link and not (document.parent / link).exists():
                broken.append(f"{document.name}: {link}")
    assert broken == []


def test_the_architecture_has_a_row_for_every_folder() -> None:
    table = [row for row in (ROOT / "docs" / "architecture.md").read_text().splitlines() if row.startswith("| `")]
    described = {name.rstrip("/") for row in table for name in re.findall(r"`([^`]+/)`", row.split("|")[1])}
    paths = [path.relative_to(ROOT).parts for path in tracked_files()]
    folders = {parts[0] for parts in paths if len(parts) > 1}
    folders |= {
        "/".join(parts[:2])
        for parts in paths
        if len(parts) > 2 and parts[0] in ("warplab", "systems", "autograder", "course")
    }
    assert folders - described == {"warplab", "systems", "autograder"}  # each of whose folders has a row of its own


def test_ci_runs_the_test_command_and_nothing_cleverer() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().strip().splitlines()[-2:] == ["make test", "make test-all"]


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=lambda p: p.name)
def test_result_files_are_valid(path: Path) -> None:
    read = results.read(path)
    assert read.records
    assert re.match(r"[0-9a-f]{7,40}", read.header.commit), "measured at an unknown commit"


def test_no_test_imports_another() -> None:
    """What several tests need is a module of its own: a test file that is moved or split breaks no other."""
    imports = re.compile(r"^\s*from tests(?:[.\w]*\.test_\w+ import|[.\w]* import .*\btest_)", re.MULTILINE)
    assert [path.name for path in sorted((ROOT / "tests").rglob("*.py")) if imports.search(path.read_text())] == []


def test_a_folder_of_many_files_says_why() -> None:
    """In the docstring of its __init__.py; for submissions, which are no package, FULL_OF_SUBMISSIONS does."""
    counted = Counter(path.parent for path in tracked_files() if path.suffix == ".py")
    full = {folder.relative_to(ROOT).as_posix() for folder, count in counted.items() if count > MOST_FILES}
    assert FULL_OF_SUBMISSIONS.keys() <= full  # a reason that nothing needs any more goes
    assert [name for name in sorted(full - FULL_OF_SUBMISSIONS.keys()) if not says_why(ROOT / name)] == []


def says_why(folder: Path) -> bool:
    package = folder / "__init__.py"
    words = ast.get_docstring(ast.parse(package.read_text(encoding="utf-8"))) if package.is_file() else None
    return "This folder has many files because" in " ".join((words or "").split())


def test_nothing_private_is_published() -> None:
    found = []
    for path in tracked_files():
        if path == Path(__file__) or path.suffix in {".png", ".svg", ".gz", ".zip"}:
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in PRIVATE.finditer(text)]
    assert found == []


def run_make(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "PYTHON"))}
    if path is not None:
        environment["PATH"] = path
    return subprocess.run(["make", *arguments], cwd=ROOT, capture_output=True, text=True, env=environment)


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@needs_make
def test_make_alone_lists_every_target() -> None:
    shown = run_make().stdout
    assert all(target in shown for target in targets() - {"help"})


@needs_make
@pytest.mark.parametrize("target", sorted(targets() - {"venv", "torch", "clean", "help"}))
def test_without_a_venv_nothing_is_installed(target: str) -> None:
    recipe = run_make("-n", "VENV=none", target).stdout
    assert "setup.sh" not in recipe and "pip" not in recipe
    assert "python3 -m" in recipe and ".venv" not in recipe


def fake_python(folder: Path, body: str) -> None:
    """A `python3` that is all there is of Python on the PATH, beside the shell's own tools."""
    folder.mkdir()
    for tool in ("sh", "dirname", "mkdir", "df", "awk", "rm", "grep", "sed", "tail", "touch", "printf", "cat"):
        if found := shutil.which(tool):
            (folder / tool).symlink_to(found)
    python = folder / "python3"
    python.write_text(f"#!{shutil.which('sh')}\n{body}\n")
    python.chmod(0o755)


def run_setup(tmp_path: Path, body: str) -> tuple[int, str]:
    """setup.sh in a copy of its own, with a python3 that does as told."""
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(SETUP, checkout / "scripts")
    fake_python(tmp_path / "bin", body)
    run = subprocess.run(
        [shutil.which("sh") or "sh", "scripts/setup.sh", ".venv", "dev"],
        cwd=checkout,
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path / "bin")},
    )
    assert not (checkout / ".venv" / ".ready-dev").exists() or run.returncode == 0
    return run.returncode, run.stderr


REAL = f'exec {sys.executable} "$@"'
# The Python of the new environment: it answers `--version` of pip, and fails to install with a message of pip's.
PIP = 'case "$*" in *"pip --version"*) exit 0;; *"pip install"*) echo "$PIP_SAYS"; exit 1;; *) exit 0;; esac'


def making_venv(says: str) -> str:
    script = PIP.replace("$PIP_SAYS", says)
    make = f"mkdir -p .venv/bin; printf '%s\\n' '#!/bin/sh' '{script}' >.venv/bin/python; chmod +x .venv/bin/python"
    return f'export PATH=/usr/bin:/bin; case "$*" in *"-m venv"*) {make};; *) exit 0;; esac'


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            'case "$*" in *--version*) echo Python 3.8.18;; *) exit 1;; esac',
            "Python 3.11, 3.12 or 3.13 is needed and Python 3.8.18 was found: install one",
        ),
        (
            'case "$*" in *ensurepip*) exit 1;; *--version*) echo Python 3.12.1;; *print*) echo python3.12;; esac',
            "Python 3.12.1 has no venv module: install it (Debian and Ubuntu: apt install python3.12-venv)",
        ),
        (making_venv("WARNING: NewConnectionError: refused"), "no package index can be reached: check the network"),
        (
            making_venv("ERROR: Could not install: [Errno 28] No space left on device"),
            "the disk is full: free some space",
        ),
        (making_venv("ERROR: No matching distribution found for numba"), "(No matching distribution found for numba)"),
    ],
    ids=["old python", "no venv", "no index", "disk full", "other"],
)
def test_a_missing_prerequisite_is_one_sentence(tmp_path: Path, body: str, sentence: str) -> None:
    code, said = run_setup(tmp_path, body)
    assert code == 1
    assert sentence in said
    assert said.startswith("setup: ") and len(said.strip().splitlines()) == 1


def test_too_little_disk_is_one_sentence(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(SETUP, checkout / "scripts")
    fake_python(tmp_path / "bin", REAL)
    (tmp_path / "bin" / "df").unlink()
    (tmp_path / "bin" / "df").write_text("#!/bin/sh\necho header\necho disk 9 9 1048576 9% /\n")
    (tmp_path / "bin" / "df").chmod(0o755)
    run = subprocess.run(
        [shutil.which("sh") or "sh", "scripts/setup.sh", ".venv", "dev"],
        cwd=checkout,
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path / "bin")},
    )
    assert run.returncode == 1 and "only 1024 MB are free" in run.stderr and "need 4096 MB" in run.stderr
    assert not (checkout / ".venv").exists()
