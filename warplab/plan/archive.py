"""Plans as files: one zip with plan.json, the source, the PTX and the cubins of each kernel.

    plan.json                    everything but code; readable, versioned
    source.py                    the submission's text
    content.bin                  what buffers start with, one after the other; only if some have content
    ptx/<kernel>.<arch>.ptx
    cubin/<kernel>.<arch>.cubin  only in assembled plans

The same plan always gives the same bytes. Reading trusts nothing: sizes are bounded before anything is unpacked, every
field is checked for its type and range, unknown fields are refused, and the parts must fit together.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import zipfile
from pathlib import Path
from typing import Any

from warplab.errors import PlanError
from warplab.files import write_whole
from warplab.plan.fields import Fields
from warplab.plan.model import (
    Argument,
    Buffer,
    Cubin,
    Dim3,
    Kernel,
    Language,
    Launch,
    Parameter,
    Plan,
    Pointer,
    Role,
    Structure,
    TensorMap,
    Value,
)
from warplab.plan.validate import MAX_CONTENT, MAX_PTX, check_plan

FORMAT = "warplab-plan"
VERSION = 2
# The plans of the course have at most 9 KiB of plan.json, 41 KiB of zip, and cubins of 280 KiB.
MAX_FILE = 64 << 20  # bytes of the zip
_LEVEL = 1  # of zlib: plans go from process to process, and level 6 takes three times as long for a quarter less
MAX_UNPACKED = 64 << 20  # bytes of all members together
MAX_MEMBERS = 1024
MAX_DOCUMENT = 8 << 20  # bytes of plan.json
MAX_VALUES = 1_000_000  # numbers, texts, lists and objects in plan.json: each takes some 70 bytes when it is read
MAX_SOURCE = 2 << 20  # bytes
_DIRECTORY_ENTRY = b"PK\x01\x02"
_LARGEST = {"plan.json": MAX_DOCUMENT, "source.py": MAX_SOURCE, "content.bin": MAX_CONTENT}
_EPOCH = (1980, 1, 1, 0, 0, 0)


def save(plan: Plan, path: Path) -> None:
    """Write a plan to a file, whole or not at all. Raises PlanError if the plan is inconsistent, OSError on disk."""
    write_whole(Path(path), dumps(plan))


def load(path: Path) -> Plan:
    """Read a plan from a file. Raises PlanError, naming the file, if it is no consistent plan of this version."""
    try:
        with open(path, "rb") as f:
            data = f.read(MAX_FILE + 1)
    except OSError as error:
        raise PlanError(f"The plan {path} cannot be read: {error.strerror}.") from None
    try:
        return loads(data)
    except PlanError as error:
        raise PlanError(f"The plan {path} cannot be used: {error}") from None


def dumps(plan: Plan) -> bytes:
    """A plan as the bytes of its file. Raises PlanError if it is inconsistent."""
    check_plan(plan)
    document = (json.dumps(_to_json(plan), indent=1, allow_nan=False) + "\n").encode()
    if len(document) > MAX_DOCUMENT or _values(document) > MAX_VALUES:
        raise PlanError(f"its {len(plan.launches)} launches are too many to write down: loop inside a kernel instead.")
    members: dict[str, bytes] = {
        "plan.json": document,
        "source.py": plan.source.encode("utf-8", "surrogatepass"),
    }
    if content := b"".join(buffer.content for buffer in plan.buffers.values()):
        members["content.bin"] = content
    for key, kernel in plan.kernels.items():
        for arch, ptx in kernel.ptx.items():
            members[f"ptx/{key}.{arch}.ptx"] = ptx.encode()
        for arch, cubin in kernel.cubins.items():
            members[f"cubin/{key}.{arch}.cubin"] = cubin.image
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = 0o644 << 16
            archive.writestr(info, data, compresslevel=_LEVEL)
    return out.getvalue()


def loads(data: bytes) -> Plan:
    """The plan in the bytes of a plan file. Raises PlanError, and nothing else, if it cannot be used."""
    if len(data) > MAX_FILE:
        raise PlanError(f"it is larger than {MAX_FILE >> 20} MiB.")
    try:
        members = _unpack(data)
        plan = _from_json(Fields(_document(_member(members, "plan.json")), "plan.json"), members)
        check_plan(plan)
    except MemoryError:
        raise PlanError("it takes more memory to read than there is.") from None
    return _with_known_lines(plan)


def _document(data: bytes) -> Any:
    """What plan.json holds. Its size and the number of its values are bounded before it is parsed."""
    if _values(data) > MAX_VALUES:
        raise PlanError(f"plan.json has more than {MAX_VALUES} values.")
    try:
        return json.loads(data.decode(), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise PlanError(f"plan.json is damaged at byte {error.start}: make the plan again.") from None
    except json.JSONDecodeError as error:
        at = len(error.doc[: error.pos].encode("utf-8", "surrogatepass"))
        raise PlanError(f"plan.json is damaged at byte {at}: make the plan again.") from None
    except RecursionError:
        raise PlanError("plan.json is nested too deeply.") from None
    except ValueError:  # of int(), for thousands of digits
        raise PlanError("plan.json has a number that is too long.") from None


def _values(document: bytes) -> int:
    """The number of values in a JSON text, or more where its strings hold commas and brackets."""
    return 1 + sum(document.count(c) for c in (b",", b"[", b"{"))


def _no_constant(text: str) -> Any:
    raise PlanError(f"plan.json contains {text}, which is not a number.")


def _with_known_lines(plan: Plan) -> Plan:
    """The plan without lines that its source does not have: 0 is what is not known."""
    if not plan.source:
        return plan
    last = plan.source.count("\n") + 1
    kernels = {key: k if k.line <= last else dataclasses.replace(k, line=0) for key, k in plan.kernels.items()}
    launches = tuple(x if x.line <= last else dataclasses.replace(x, line=0) for x in plan.launches)
    return dataclasses.replace(plan, kernels=kernels, launches=launches)


def _unpack(data: bytes) -> dict[str, bytes]:
    # An entry of the directory takes 46 bytes of the file and hundreds once it is read, so they are counted before.
    if data.count(_DIRECTORY_ENTRY) > MAX_MEMBERS:
        raise PlanError(f"it has more than {MAX_MEMBERS} members.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _members(archive)
    except PlanError:
        raise
    except Exception as error:  # zipfile and zlib do not say which ones a hostile file can cause
        raise PlanError(f"it is damaged ({_brief(error)}): make it again.") from None


def _brief(error: BaseException) -> str:
    return str(error).split("\n")[0][:120] or type(error).__name__


def _members(archive: zipfile.ZipFile) -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    room = MAX_UNPACKED
    for info in archive.infolist():
        name = info.filename
        if name in members:
            raise PlanError(f"it has two members named {name[:80]!r}.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise PlanError(f"its member {name[:80]!r} is compressed in a way that plans do not use.")
        most = min(room, _LARGEST.get(name, MAX_PTX if name.endswith(".ptx") else room))
        # The size that a header claims is not to be trusted, so the reading itself is bounded.
        with archive.open(info) as f:
            content = f.read(most + 1)
        room -= len(content)
        if room < 0:
            raise PlanError(f"it unpacks to more than {MAX_UNPACKED >> 20} MiB.")
        if len(content) > most:
            raise PlanError(f"its member {name[:80]!r} has more than {most >> 20} MiB.")
        members[name] = content
    return members


# To JSON


def _to_json(plan: Plan) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "function": plan.function,
        "source_name": plan.source_name,
        "versions": dict(plan.versions),
        "buffers": {
            name: {
                "role": b.role.value,
                "dtype": b.dtype,
                "shape": list(b.shape),
                "strides": list(b.strides),
                "zeroed": b.zeroed,
                "content": len(b.content),
            }
            for name, b in plan.buffers.items()
        },
        "kernels": {key: _kernel_to_json(k) for key, k in plan.kernels.items()},
        "launches": [
            {
                "kernel": launch.kernel,
                "grid": list(launch.grid),
                "block": list(launch.block),
                "cluster": list(launch.cluster),
                "shared_bytes": launch.shared_bytes,
                "line": launch.line,
                "cooperative": launch.cooperative,
                "arguments": [_argument_to_json(a) for a in launch.arguments],
            }
            for launch in plan.launches
        ],
    }


def _kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "entry": kernel.entry,
        "language": kernel.language.value,
        "line": kernel.line,
        "max_dynamic_shared": kernel.max_dynamic_shared,
        "parameters": [{"name": p.name, "size": p.size, "align": p.align} for p in kernel.parameters],
        "ptx": list(kernel.ptx),
        "cubins": {
            arch: {
                "registers": c.registers,
                "spill_stores": c.spill_stores,
                "spill_loads": c.spill_loads,
                "stack": c.stack,
                "static_shared": c.static_shared,
            }
            for arch, c in kernel.cubins.items()
        },
    }


def _argument_to_json(argument: Argument) -> dict[str, Any]:
    if isinstance(argument, Pointer):
        return {"buffer": argument.buffer, "offset": argument.offset, "parameter": argument.parameter}
    if isinstance(argument, TensorMap):
        described = dataclasses.asdict(argument)
        return {"tensor_map": described.pop("buffer"), **described}
    if isinstance(argument, Structure):
        return {"bytes": argument.content.hex(), "parameter": argument.parameter}
    value = argument.value
    # JSON has no infinities; as words they stay readable.
    shown = str(value) if isinstance(value, float) and not math.isfinite(value) else value
    return {"dtype": argument.dtype, "value": shown, "parameter": argument.parameter}


# From JSON


def _from_json(top: Fields, members: dict[str, bytes]) -> Plan:
    if top.text("format") != FORMAT:
        raise PlanError("it is not a Warplab plan.")
    version = top.integer("version")
    if version != VERSION:
        raise PlanError(f"it is of version {version}, this Warplab reads version {VERSION}: make it again.")
    known = {"plan.json", "source.py"}
    kernels = {}
    for key, fields in top.named("kernels"):
        kernels[key] = _kernel(key, fields, members, known)
    buffers = _buffers(top, members, known)
    launches = tuple(_launch(fields) for fields in top.items("launches"))
    versions = {name: top.nested("versions").text(name) for name in top.nested("versions").names()}
    plan = Plan(
        top.text("function"),
        kernels,
        buffers,
        launches,
        _decoded(members, "source.py"),
        top.text("source_name"),
        versions,
    )
    top.done()
    if unknown := sorted(set(members) - known):
        raise PlanError(f"it has a member that it does not name: {unknown[0][:80]!r}.")
    return plan


def _member(members: dict[str, bytes], name: str) -> bytes:
    if name not in members:
        raise PlanError(f"its member {name[:120]!r} is missing.")
    return members[name]


def _decoded(members: dict[str, bytes], name: str) -> str:
    try:
        return _member(members, name).decode()
    except UnicodeDecodeError:
        raise PlanError(f"its member {name[:120]!r} is not text.") from None


def _kernel(key: str, fields: Fields, members: dict[str, bytes], known: set[str]) -> Kernel:
    ptx = {}
    for arch in fields.texts("ptx"):
        known.add(f"ptx/{key}.{arch}.ptx")
        ptx[arch] = _decoded(members, f"ptx/{key}.{arch}.ptx")
    cubins = {}
    for arch, figures in fields.named("cubins"):
        known.add(f"cubin/{key}.{arch}.cubin")
        image = _member(members, f"cubin/{key}.{arch}.cubin")
        names = ("registers", "spill_stores", "spill_loads", "stack", "static_shared")
        cubins[arch] = Cubin(image, *(figures.integer(n) for n in names))
        figures.done()
    parameters = []
    for p in fields.items("parameters"):
        parameters.append(Parameter(p.text("name"), p.integer("size"), p.integer("align")))
        p.done()
    kernel = Kernel(
        fields.text("name"),
        fields.text("entry"),
        fields.member("language", Language),
        tuple(parameters),
        ptx,
        cubins,
        fields.optional_integer("max_dynamic_shared"),
        fields.integer("line"),
    )
    fields.done()
    return kernel


def _buffers(top: Fields, members: dict[str, bytes], known: set[str]) -> dict[str, Buffer]:
    content, at = members.get("content.bin", b""), 0
    buffers = {}
    for name, fields in top.named("buffers"):
        size = fields.integer("content")
        if not 0 <= size <= len(content) - at:
            raise PlanError("its member 'content.bin' is shorter than its buffers say, or missing.")
        buffers[name] = _buffer(name, fields, content[at : at + size])
        at += size
    if at:
        known.add("content.bin")
    if at < len(content):
        raise PlanError("its member 'content.bin' is longer than its buffers say.")
    return buffers


def _buffer(name: str, fields: Fields, content: bytes) -> Buffer:
    buffer = Buffer(
        name,
        fields.member("role", Role),
        fields.text("dtype"),
        fields.integers("shape"),
        fields.integers("strides"),
        fields.boolean("zeroed"),
        content,
    )
    fields.done()
    return buffer


def _launch(fields: Fields) -> Launch:
    launch = Launch(
        fields.text("kernel"),
        _dim3(fields, "grid"),
        _dim3(fields, "block"),
        tuple(_argument(a) for a in fields.items("arguments")),
        fields.integer("shared_bytes"),
        _dim3(fields, "cluster"),
        fields.integer("line"),
        fields.boolean("cooperative"),
    )
    fields.done()
    return launch


def _dim3(fields: Fields, name: str) -> Dim3:
    numbers = fields.integers(name)
    if len(numbers) != 3:
        raise PlanError(f"{fields.where}: {name} must have three numbers.")
    return numbers[0], numbers[1], numbers[2]


def _argument(fields: Fields) -> Argument:
    argument: Argument
    if "buffer" in fields.names():
        argument = Pointer(fields.text("buffer"), fields.integer("offset"), fields.text("parameter"))
    elif "tensor_map" in fields.names():
        argument = TensorMap(
            fields.text("tensor_map"),
            fields.integer("offset"),
            fields.text("dtype"),
            fields.integers("shape"),
            fields.integers("strides"),
            fields.integers("box"),
            fields.integers("element_strides"),
            fields.integer("swizzle"),
            fields.integer("l2_promotion"),
            fields.text("fill"),
            fields.text("parameter"),
        )
    elif "bytes" in fields.names():
        argument = Structure(_hexadecimal(fields, "bytes"), fields.text("parameter"))
    else:
        argument = Value(fields.text("dtype"), fields.number("value"), fields.text("parameter"))
    fields.done()
    return argument


def _hexadecimal(fields: Fields, name: str) -> bytes:
    try:
        return bytes.fromhex(fields.text(name))
    except ValueError:
        raise PlanError(f"{fields.where}: {name} must be hexadecimal digits.") from None
