"""docs/threat-model.md names tests that exist for every threat, and every exploit belongs to a threat."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from autograder.judge.confined_worker import sandbox
from autograder.spec.lab import CHECKOUT
from corpus.judge.submission_files import submissions
from warplab.folders import COMPILED, cache_folder

pytestmark = pytest.mark.pages

PAGE = (CHECKOUT / "docs" / "threat-model.md").read_text(encoding="utf-8")
ROWS = {int(m[1]): m[0] for m in re.finditer(r"^\| (\d+) \|.*$", PAGE, re.MULTILINE)}
EXPLOITS = submissions("exploit")
REFERENCE = re.compile(r"`((?:exploit|tests)/[^`]+\.py[^`]*)`")


def test_there_is_a_row_for_every_threat() -> None:
    assert sorted(ROWS) == list(range(1, len(ROWS) + 1)) and len(ROWS) >= 41
    assert all(REFERENCE.search(row) for row in ROWS.values())


@pytest.mark.parametrize("reference", sorted(set(REFERENCE.findall(PAGE))))
def test_what_the_page_refers_to_exists(reference: str) -> None:
    path, _, name = reference.partition("::")
    if path.startswith("exploit/"):
        assert any(file.name == path.removeprefix("exploit/") for file in EXPLOITS), f"there is no {path}"
        return
    tree = ast.parse((CHECKOUT / path).read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert name in defined, f"{path} has no test {name}"


@pytest.mark.parametrize("path", EXPLOITS, ids=lambda path: "/".join(path.parts[-3:]))
def test_every_exploit_is_named_in_the_rows_of_its_threats(path) -> None:
    line = next(line for line in path.read_text(encoding="utf-8").split("\n") if line.startswith("# threat: "))
    for number in line.removeprefix("# threat: ").split(", "):
        assert f"`exploit/{path.name}`" in ROWS[int(number)], f"row {number} does not name {path.name}"


def test_nothing_is_pickled() -> None:
    """No module of the judge reads or writes pickles, nor NumPy files that may hold some.

    `warplab.own_kernels` does, for a user's own code; import-linter holds that nothing of the judge imports it. The
    emulator's compiler does, for what it keeps beside the machine code that it runs: see the next test.
    """
    apart = [CHECKOUT / "warplab" / "emulator" / "lean_numba.py", *(CHECKOUT / "warplab" / "own_kernels").rglob("*.py")]
    library = set((CHECKOUT / "warplab").rglob("*.py")) - set(apart)
    for path in [*(CHECKOUT / "autograder").rglob("*.py"), *library]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"} & set(names), path
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant) and node.value.value is False, path


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("gpu", [True, False])
def test_no_worker_can_write_where_the_emulator_is_kept(own: bool, gpu: bool) -> None:
    """Machine code and pickles there are run as they are."""
    kept = cache_folder() / COMPILED
    for reduced in (True, False):
        writable = [Path(path) for path in sandbox(own, reduced, gpu, None).writable]
        assert not [path for path in writable if path == kept or path in kept.parents or kept in path.parents]
