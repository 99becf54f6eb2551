"""Machine code that comes with the wheel: which is taken, which is not, and that it is made for each target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from llvmlite import binding

from warplab.emulator import objects
from warplab.emulator.build_objects import object_of
from warplab.emulator.objects import TARGETS, Target, packaged

MODULE = "define i64 @answer() {\n  ret i64 42\n}\n"
MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine of ELF


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for target in TARGETS:
        (tmp_path / target.name).mkdir()
        (tmp_path / target.name / "loop.o").write_bytes(target.name.encode())
    (tmp_path / "manifest.json").write_text(json.dumps({"loop": {"sources": "abc", "function": "run"}}))
    monkeypatch.setattr(objects, "FOLDER", tmp_path)
    return tmp_path


def on(monkeypatch: pytest.MonkeyPatch, machine: str, *features: str, system: str = "linux") -> Target | None:
    monkeypatch.setattr(objects.sys, "platform", system)
    monkeypatch.setattr(objects.platform, "machine", lambda: machine)
    monkeypatch.setattr(objects.binding, "get_host_cpu_features", lambda: dict.fromkeys(features, True))
    objects.fitting.cache_clear()
    return objects.fitting()


@pytest.fixture(autouse=True)
def forget():
    yield
    objects.fitting.cache_clear()


def test_the_best_target_that_a_processor_runs_is_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    v4, v3, arm = TARGETS
    for machine, features, target in (
        ("x86_64", v4.needs, v4),
        ("x86_64", v3.needs | {"avx512f"}, v3),
        ("aarch64", {"neon"}, arm),
    ):
        assert on(monkeypatch, machine, *features) == target
        assert packaged("loop", "abc") == ("run", target.name.encode())
    assert on(monkeypatch, "x86_64", "avx2") is None and packaged("loop", "abc") is None
    assert on(monkeypatch, "x86_64", *v4.needs, system="darwin") is None
    assert on(monkeypatch, "ppc64le") is None


@pytest.mark.parametrize("damage", ["other sources", "no manifest", "half a manifest", "no object", "another part"])
def test_objects_of_other_sources_and_damaged_ones_are_not_taken(damage: str, folder: Path, monkeypatch) -> None:
    on(monkeypatch, "aarch64")
    if damage == "no manifest":
        (folder / "manifest.json").unlink()
    elif damage == "half a manifest":
        (folder / "manifest.json").write_text('{"loop": {"sources": ')
    elif damage == "no object":
        (folder / "aarch64" / "loop.o").unlink()
    asked = ("bulk" if damage == "another part" else "loop", "abd" if damage == "other sources" else "abc")
    assert packaged(*asked) is None


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_one_module_becomes_code_of_each_target(target: Target) -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    code = object_of(binding.parse_assembly(MODULE).as_bitcode(), target)
    assert code[:4] == b"\x7fELF" and int.from_bytes(code[18:20], "little") == MACHINES[target.machine]
