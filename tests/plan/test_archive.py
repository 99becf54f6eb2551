"""Plan files: the same plan back, the same bytes each time, and nothing but PlanError from a hostile file."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import math
import os
import random
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.sampling import WHOLE
from warplab.errors import PlanError
from warplab.plan import archive, validate
from warplab.plan.archive import dumps, load, loads, save
from warplab.plan.model import (
    Buffer,
    Cubin,
    Kernel,
    Language,
    Launch,
    Parameter,
    Plan,
    Pointer,
    Role,
    Structure,
    Value,
)

PTX = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(
	.param .u64 k_param_0,
	.param .f32 k_param_1,
	.param .u8 k_param_2
)
{
	ret;
}
"""


@pytest.fixture
def plan() -> Plan:
    parameters = (Parameter("x", 8, 8), Parameter("a", 4, 4), Parameter("flag", 1, 1))
    cubin = Cubin(b"\x7fELF rest", 32, 8, 16, 24, 4096)
    kernel = Kernel(
        "k<π>", "k", Language.CUDA_CPP, parameters, {"sm_90a": PTX, "sm_80": PTX}, {"sm_90a": cubin}, 100_000, 7
    )
    launches = tuple(
        Launch("k_", (8, 2, 1), (128, 1, 1), (Pointer("x", 4, "x"), Value("float32", v, "a"), Value("bool", 1)), 64)
        for v in (1.5, 2, math.inf, -math.inf, math.nan)
    )
    buffers = {
        "x": Buffer("x", Role.INPUT, "float32", (5, 8), (32, 4)),
        "scratch0": Buffer("scratch0", Role.SCRATCH, "complex64", (2, 0, 3), (0, 24, 8), True),
        "f": Buffer("f", Role.SCRATCH, "float16", (4, 6), (2, 8)),
        "zero": Buffer("zero", Role.OUTPUT, "int8", (), ()),
        "data1": Buffer("data1", Role.SCRATCH, "int16", (2, 3), (6, 2), content=bytes(range(12))),
        "ones": Buffer("ones", Role.SCRATCH, "float64", (1000,), (8,), content=bytes(8)),
    }
    return Plan("f", {"k_": kernel}, buffers, launches, "def f(x): pass  # é\n" + "\n" * 7, "sub.py", {"nvrtc": "13.0"})


def test_round_trip_and_same_bytes(plan: Plan, tmp_path: Path) -> None:
    save(plan, tmp_path / "a.plan")
    back = load(tmp_path / "a.plan")
    assert repr(back) == repr(plan)  # equal up to the NaN, which equals nothing
    assert back.kernels["k_"].ptx == plan.kernels["k_"].ptx and back.source == plan.source
    assert back.kernels["k_"].cubins["sm_90a"].image == plan.kernels["k_"].cubins["sm_90a"].image
    assert dumps(back) == dumps(plan) == (tmp_path / "a.plan").read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["a.plan"]


def with_structure(content: bytes) -> Plan:
    ptx = PTX.replace(
        "\t.param .u64 k_param_0,\n\t.param .f32 k_param_1,\n\t.param .u8 k_param_2", "\t.param .align 4 .b8 s[12]"
    )
    kernel = Kernel("k", "k", Language.CUDA_CPP, (Parameter("s", 12, 4),), {"sm_90a": ptx})
    return Plan("f", {"k": kernel}, {}, (Launch("k", (1, 1, 1), (1, 1, 1), (Structure(content, "s"),)),))


def test_structures_come_back_and_have_the_size_of_their_parameter() -> None:
    plan = with_structure(bytes(range(12)))
    assert loads(dumps(plan)) == plan
    for content in (b"", bytes(11), bytes(13)):
        with pytest.raises(PlanError, match="for a parameter of 12"):
            dumps(with_structure(content))
    with pytest.raises(PlanError, match="hexadecimal"):
        loads(changed(plan, setter("launches/0/arguments/0/bytes", "0g")))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"content": bytes(11)}, "another number of elements"),
        ({"content": bytes(12), "zeroed": True}, "is zeroed"),
        ({"content": bytes(2 << 20), "shape": (1 << 20,), "strides": (2,)}, "more than 1 MiB of host data"),
    ],
)
def test_content_fits_its_buffer_and_is_bounded(change: dict[str, Any], words: str, plan: Plan) -> None:
    buffers = {**plan.buffers, "data1": replace(plan.buffers["data1"], **change)}
    with pytest.raises(PlanError, match=words):
        dumps(replace(plan, buffers=buffers))


def test_content_that_no_buffer_has_is_refused(plan: Plan) -> None:
    contents = members(dumps(plan))
    with pytest.raises(PlanError, match="longer than its buffers say"):
        loads(packed(contents | {"content.bin": contents["content.bin"] + b"\0"}))


def test_an_interrupted_write_leaves_the_old_file(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.plan"
    path.write_bytes(b"old")

    def broken(*_: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError):
        save(plan, path)
    assert path.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return {i.filename: z.read(i) for i in z.infolist()}


def packed(contents: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as z:
        for name, data in contents.items():
            z.writestr(name, data)
    return out.getvalue()


def changed(plan: Plan, edit: Callable[[dict], Any]) -> bytes:
    contents = members(dumps(plan))
    document = json.loads(contents["plan.json"])
    edit(document)
    contents["plan.json"] = json.dumps(document).encode()
    return packed(contents)


def setter(path: str, value: Any) -> Callable[[dict], None]:
    def edit(document: dict) -> None:
        *steps, last = path.split("/")
        for step in steps:
            document = document[int(step)] if isinstance(document, list) else document[step]
        key: Any = int(last) if isinstance(document, list) else last
        if value is ...:
            del document[key]
        else:
            document[key] = value

    return edit


EDITS = {
    "other format": ("format", "zip", "not a Warplab plan"),
    "other version": ("version", 1, "version 1"),
    "no version": ("version", ..., "lacks 'version'"),
    "unknown field": ("pickle", "x", "unknown field 'pickle'"),
    "unknown inner field": ("launches/0/extra", 1, "unknown field 'extra'"),
    "function": ("function", "a b", "not an identifier"),
    "path as source name": ("source_name", "a" * 300, "source's name"),
    "escape in a name": ("kernels/k_/name", "\x1b[2J", "proper name"),
    "role": ("buffers/x/role", "secret", "one of"),
    "dtype": ("buffers/x/dtype", "object", "unknown dtype"),
    "shape text": ("buffers/x/shape", "5", "list"),
    "shape bool": ("buffers/x/shape", [True, 8], "integer"),
    "shape float": ("buffers/x/shape", [5.0, 8], "integer"),
    "negative shape": ("buffers/x/shape", [-5, 8], "absurd shape"),
    "huge shape": ("buffers/x/shape", [1 << 39, 1 << 39], "larger"),
    "huge integer": ("buffers/x/shape", [1 << 80, 1], "64 bits"),
    "strides": ("buffers/x/strides", [4], "stride"),
    "gaps": ("buffers/x/strides", [64, 4], "dense"),
    "overlap": ("buffers/x/strides", [4, 4], "dense"),
    "negative strides": ("buffers/x/strides", [-32, 4], "dense"),
    "content": ("buffers/x/content", -1, "content.bin"),
    "content that is not there": ("buffers/x/content", 4, "content.bin"),
    "zeroed": ("buffers/x/zeroed", 1, "true or false"),
    "kernel": ("launches/0/kernel", "other", "unknown kernel"),
    "buffer": ("launches/0/arguments/0/buffer", "y", "unknown buffer"),
    "offset": ("launches/0/arguments/0/offset", 161, "outside"),
    "negative offset": ("launches/0/arguments/0/offset", -4, "outside"),
    "argument count": ("launches/0/arguments/2", ..., "2 arguments for 3 parameters"),
    "pointer for a float": ("launches/0/arguments/1", {"buffer": "x", "offset": 0, "parameter": ""}, "4 bytes"),
    "value size": ("launches/0/arguments/1/dtype", "float64", "4 bytes"),
    "value dtype": ("launches/0/arguments/1/dtype", "O", "unknown dtype"),
    "value range": ("launches/0/arguments/2/value", 2, "no bool"),
    "value text": ("launches/0/arguments/1/value", "1e5", "integer"),
    "grid": ("launches/0/grid", [1, 1], "three numbers"),
    "empty grid": ("launches/0/grid", [0, 1, 1], "empty"),
    "block": ("launches/0/block", [1024, 2, 1], "too many threads"),
    "cluster": ("launches/0/cluster", [32, 1, 1], "too large a cluster"),
    "grid of clusters": ("launches/0/cluster", [3, 1, 1], "multiple"),
    "shared": ("launches/0/shared_bytes", 1 << 30, "absurd shared"),
    "language": ("kernels/k_/language", "sh", "one of"),
    "entry": ("kernels/k_/entry", "../k", "entry symbol"),
    "other entry": ("kernels/k_/entry", "kk", "without its entry"),
    "parameters": ("kernels/k_/parameters/0/size", 4, "other parameters"),
    "architecture": ("kernels/k_/ptx", ["sm_90a", "../../etc/passwd"], "missing"),
    "cubin figures": ("kernels/k_/cubins/sm_90a/registers", "32", "integer"),
    "cubin negative": ("kernels/k_/cubins/sm_90a/stack", -1, "absurd"),
    "list for object": ("kernels", [], "object"),
    "versions": ("versions/nvrtc", 13, "string"),
}


@pytest.mark.parametrize("name", list(EDITS))
def test_a_field_that_does_not_fit_is_named(name: str, plan: Plan) -> None:
    path, value, words = EDITS[name]
    with pytest.raises(PlanError, match=words):
        loads(changed(plan, setter(path, value)))


def test_kernel_keys_cannot_leave_the_archive(plan: Plan) -> None:
    contents = members(dumps(plan))
    document = json.loads(contents["plan.json"])
    document["kernels"] = {"../k_": document["kernels"]["k_"]}
    contents = {n.replace("/k_.", "/../k_."): d for n, d in contents.items()}
    contents["plan.json"] = json.dumps(document).encode()
    with pytest.raises(PlanError, match="no file name"):
        loads(packed(contents))


def test_members_missing_extra_and_twice(plan: Plan) -> None:
    contents = members(dumps(plan))
    for name in contents:
        with pytest.raises(PlanError):
            loads(packed({n: d for n, d in contents.items() if n != name}))
    with pytest.raises(PlanError, match="does not name"):
        loads(packed(contents | {"../../evil.py": b"import os"}))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z, pytest.warns(UserWarning):
        for name, data in [*contents.items(), *contents.items()]:
            z.writestr(name, data)
    with pytest.raises(PlanError, match="two members"):
        loads(out.getvalue())


def test_bombs_are_bounded(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED", 1 << 20)
    contents = members(dumps(plan))
    with pytest.raises(PlanError, match="unpacks to more"):
        loads(packed(contents | {"source.py": b"\0" * (4 << 20)}))
    with pytest.raises(PlanError, match="compressed in a way"):
        loads(packed(contents, zipfile.ZIP_LZMA))
    monkeypatch.setattr(archive, "MAX_MEMBERS", 10)
    with pytest.raises(PlanError, match="more than 10 members"):
        loads(packed(contents | {f"m{i}": b"" for i in range(10)}))
    monkeypatch.setattr(archive, "MAX_FILE", 100)
    with pytest.raises(PlanError, match="larger than"):
        loads(dumps(plan))


@pytest.mark.slow
def test_a_bomb_of_a_document_is_refused_before_it_is_read(plan: Plan) -> None:
    contents = members(dumps(plan))
    for document in (b"[" + b"{}," * 2_500_000 + b"{}]", b" " * (200 << 20), b"[" + b'"a",' * 2_000_000 + b"1]"):
        data = packed(contents | {"plan.json": document})
        tracemalloc.start()
        with pytest.raises(PlanError, match="has more than"):
            loads(data)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
        tracemalloc.stop()


def test_too_little_memory_is_told(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise MemoryError

    data = dumps(plan)
    monkeypatch.setattr(archive.json, "loads", full)
    with pytest.raises(PlanError, match="takes more memory"):
        loads(data)


def test_a_bomb_of_a_directory_is_refused_before_it_is_read() -> None:
    data = packed({f"{i}": b"" for i in range(20_000)}, zipfile.ZIP_STORED)
    tracemalloc.start()
    with pytest.raises(PlanError, match="more than 1024 members"):
        loads(data)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "mebibytes"), [("ptx/k_.sm_90a.ptx", 4), ("source.py", 2), ("plan.json", 8), ("content.bin", 1)]
)
def test_members_have_bounds_of_their_own(plan: Plan, name: str, mebibytes: int) -> None:
    contents = members(dumps(plan)) | {name: b" " * ((mebibytes << 20) + 1)}
    with pytest.raises(PlanError, match=rf"{name}' has more than {mebibytes} MiB"):
        loads(packed(contents))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"", "damaged at byte 0"),
        (b'{"format": "\xc3\xa9", }', "damaged at byte 17"),
        (b'{"format": "\xff"}', "damaged at byte 12"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 5000, "a number that is too long"),
        (b"[1, 2", "damaged at byte 5"),
    ],
)
def test_damage_is_told_in_words(plan: Plan, document: bytes, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        loads(packed(members(dumps(plan)) | {"plan.json": document}))


def test_lines_that_the_source_does_not_have_are_unknown(plan: Plan) -> None:
    data = changed(plan, lambda d: (d["kernels"]["k_"].update(line=2**31 - 1), d["launches"][0].update(line=9)))
    found = loads(data)
    assert found.source.count("\n") == 8
    assert found.kernels["k_"].line == 0 and found.launches[0].line == 9
    assert loads(changed(plan, lambda d: d["launches"][0].update(line=10))).launches[0].line == 0


def test_kernels_that_nothing_launches_are_refused(plan: Plan) -> None:
    kernels = plan.kernels | {f"idle{i}": plan.kernels["k_"] for i in range(12)}
    with pytest.raises(PlanError, match="'idle0' is never launched"):
        dumps(replace(plan, kernels=kernels))
    contents = members(dumps(plan))
    document = json.loads(contents["plan.json"])
    document["kernels"]["idle"] = document["kernels"]["k_"] | {"cubins": {}}
    contents |= {f"ptx/idle.{arch}.ptx": PTX.encode() for arch in ("sm_90a", "sm_80")}
    with pytest.raises(PlanError, match="'idle' is never launched"):
        loads(packed(contents | {"plan.json": json.dumps(document).encode()}))


def test_ptx_of_all_kernels_is_bounded(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "MAX_ALL_PTX", len(PTX) - 1)
    with pytest.raises(PlanError, match="of PTX in all"):
        dumps(plan)
    monkeypatch.setattr(validate, "MAX_ALL_PTX", len(PTX))  # two architectures share the text
    dumps(plan)
    monkeypatch.setattr(validate, "MAX_COPIES", 2 * len(PTX) - 1)
    with pytest.raises(PlanError, match="of PTX in all"):
        dumps(plan)


def test_half_a_character_is_no_text(plan: Plan) -> None:
    with pytest.raises(PlanError, match="must be text"):
        loads(changed(plan, setter("kernels/k_/name", "\ud800")))


def test_ptx_that_cannot_be_read_is_refused_with_its_line(plan: Plan) -> None:
    contents = members(dumps(plan)) | {"ptx/k_.sm_90a.ptx": PTX.replace("ret;", "ret").encode()}
    with pytest.raises(PlanError, match=r"kernel 'k_' has PTX that cannot be used: an instruction has no end.*line 10"):
        loads(packed(contents))


@pytest.mark.slow
def test_launches_that_are_too_many_to_write_down(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    dumps(replace(plan, launches=plan.launches * 2000))  # as many as the recorder takes
    monkeypatch.setattr(archive, "MAX_DOCUMENT", 1 << 16)
    with pytest.raises(PlanError, match="loop inside a kernel"):
        dumps(replace(plan, launches=plan.launches * 2000))


def test_a_header_that_lies_about_its_size_is_damage(plan: Plan) -> None:
    contents = members(dumps(plan))
    data = bytearray(packed(contents | {"source.py": b"x" * 100_000}))
    true, lie = (100_000).to_bytes(4, "little"), (10).to_bytes(4, "little")
    assert true in data
    with pytest.raises(PlanError):
        loads(bytes(data).replace(true, lie))


@pytest.mark.parametrize(
    "document",
    [b"", b"null", b"[]", b"{", b"\xff", b'{"format": NaN}', b"[" * 100_000, b"1" * 100_000, b'{"format": "\\ud800"}'],
)
def test_json_that_is_no_plan(document: bytes) -> None:
    with pytest.raises(PlanError):
        loads(packed({"plan.json": document, "source.py": b""}))


def test_random_damage_is_only_ever_a_plan_error(plan: Plan) -> None:
    data = dumps(plan)
    rng = random.Random(1)
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if rng.random() < 0.3:
            del damaged[rng.randrange(len(damaged)) :]
        with contextlib.suppress(PlanError):
            loads(bytes(damaged))


@pytest.mark.slow
def test_random_edits_of_the_document_are_only_ever_a_plan_error(plan: Plan) -> None:
    rng = random.Random(2)
    document = json.loads(members(dumps(plan))["plan.json"])
    strange = [None, True, -1, 1 << 63, 1e308, "", "x", [], {}, [[]], {"a": 1}, "\x00", -0.0]
    for _ in range(600):
        edited = copy.deepcopy(document)
        place: Any = edited
        while True:
            key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.85:
                place = place[key]
                continue
            place[key] = rng.choice(strange)
            break
        contents = members(dumps(plan)) | {"plan.json": json.dumps(edited).encode()}
        with contextlib.suppress(PlanError):
            loads(packed(contents))


# What stands in for a piece of a document or of PTX: of every kind, and the extremes of each.
_JSON_PIECES = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"null", b"true", b"-1", b"1e999", b"9" * 30, b"0.5", b'"x"']
_JSON_PIECES += [b"\\", b"\\u0000", b"\xff", b"-0", b"18446744073709551616", b'"\\ud800"', b"NaN", b"[" * 2000, b"{}"]
_PTX_PIECES = [b".entry", b".visible", b".param", b".reg .b32 q<9999999>;", b"{", b"}", b"(", b")", b"[", b"]", b"<"]
_PTX_PIECES += [
    b";",
    b"/*",
    b"*/",
    b"//",
    b'"',
    b"\n",
    b"1+2*3",
    b"99999999999999999999",
    b".shared .b8 s[7];",
    b"@",
    b"#",
]
_PTX_PIECES += [
    b"\0",
    b"\xc3\xa9",
    b".maxntid 1,2,3",
    b".loc 1 5 0",
    b".pragma",
    b".file 1",
    b"=",
    b",",
    b"L:",
    b".extern",
    b".func",
]


@pytest.mark.parametrize("seed", range(4 if WHOLE else 1))
@pytest.mark.slow
def test_thousands_of_mutated_files_are_only_ever_a_plan_error(plan: Plan, seed: int) -> None:
    """Pieces of the document and of PTX are replaced, repeated, deleted and moved."""
    rng = random.Random(seed)
    contents = members(dumps(plan))
    names = ["plan.json", "ptx/k_.sm_90a.ptx"]
    usable = 0
    tracemalloc.start()
    for _ in range(600):
        edited = dict(contents)
        for _ in range(rng.randint(1, 3)):
            name = rng.choice(names)
            edited[name] = mutated(rng, edited[name], _JSON_PIECES if name == "plan.json" else _PTX_PIECES)
        try:
            loads(packed(edited, zipfile.ZIP_STORED))
            usable += 1
        except PlanError as error:
            assert "\n" not in str(error) and len(str(error)) < 700
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    assert 0 < usable < 400, "most of them are no plans, and some still are"


def mutated(rng: random.Random, text: bytes, pieces: list[bytes]) -> bytes:
    start = rng.randrange(len(text) + 1)
    end = min(len(text), start + rng.choice((0, 1, 3, 20)))
    other = rng.randrange(len(text) + 1)
    repeated = rng.choice(pieces) * rng.choice((2, 50))
    piece = rng.choice([rng.choice(pieces), repeated, text[start:end], text[other:][:20]])
    return text[:start] + piece + text[end:]


def test_saving_an_inconsistent_plan_is_refused(plan: Plan, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="unknown kernel"):
        save(replace(plan, kernels={}), tmp_path / "a.plan")
    assert not list(tmp_path.iterdir())


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"nothing\.plan"):
        load(tmp_path / "nothing.plan")
