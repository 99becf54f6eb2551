"""Reading declarations: what ptxas sees and nothing else, in work that grows with the length of the text."""

from __future__ import annotations

import re
import sys
from re import _constants, _parser  # type: ignore[attr-defined]
from types import FrameType
from typing import Any

import pytest

from tests.plan.hostile_ptx import FAMILIES, HEAD, module
from warplab.errors import PlanError
from warplab.isa import declarations as declarations_module
from warplab.isa import entry as ptx_entry
from warplab.isa import text
from warplab.isa.declarations import MAX_REGISTERS, declarations
from warplab.isa.entry import entries, externals, line_of, rename_files, static_shared_bytes, without_printing
from warplab.isa.text import PtxError
from warplab.plan import assembler
from warplab.plan.assemble import parse_figures

READERS = {declarations_module.__file__, ptx_entry.__file__, text.__file__}


def ask(ptx: str) -> None:
    """Everything that the judge asks of a text."""
    for question in (entries, externals, without_printing, lambda text: static_shared_bytes(text, "k")):
        try:
            question(ptx)
        except PlanError:
            break
    rename_files(ptx, "a", "b")
    line_of(ptx, 1 << 30, "a")


def steps(ptx: str) -> int:
    """The lines of the reader that reading a text runs: the same number on every machine."""
    count = 0

    def inside(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return inside

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return inside if frame.f_code.co_filename in READERS else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        ask(ptx)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("family", list(FAMILIES))
def test_work_grows_with_the_length(family: str) -> None:
    make = FAMILIES[family]
    small, middle, large = (steps(make(n)) for n in (2000, 4000, 8000))
    assert middle - small <= 2 * 2000 * 30 and large - middle <= 2.2 * max(middle - small, 200)


def patterns() -> list[re.Pattern[str]]:
    found = [p for m in (text, ptx_entry, declarations_module) for p in vars(m).values() if isinstance(p, re.Pattern)]
    assert len(found) >= 8
    return found


@pytest.mark.parametrize("pattern", patterns(), ids=lambda p: p.pattern[:30])
def test_patterns_never_give_back_what_they_took(pattern: re.Pattern[str]) -> None:
    """A repetition without end is possessive, but for a comment, which goes on to the end of the text if it has none.

    Steps that a pattern makes inside of itself are not counted by the test above; this is what bounds them.
    """
    loose = _loose(_parser.parse(pattern.pattern, pattern.flags))
    if pattern is ptx_entry._COMPILER:  # it reads 1,000 characters
        return
    assert len(loose) == (1 if pattern is text._UNSPOKEN else 0), loose


def _loose(parsed: Any) -> list[Any]:
    found: list[Any] = []
    for operation, argument in parsed:
        if operation in (_constants.MAX_REPEAT, _constants.MIN_REPEAT) and argument[1] is _constants.MAXREPEAT:
            found.append(argument)
        for part in argument if isinstance(argument, tuple | list) else [argument]:
            for inner in part if isinstance(part, list) else [part]:
                if isinstance(inner, _parser.SubPattern):
                    found += _loose(inner)
    return found


HIDDEN = ".visible .entry hidden() { ret; }"
# Texts that try to show ptxas other entries than the reader.
TRICKS = {
    "line comment": module(before=f"// {HIDDEN}"),
    "comment": module(before=f"/* {HIDDEN} */"),
    "short comment": module(before=f"/*/ {HIDDEN} /**/"),
    "empty comment": module(before=f"/**/ {HIDDEN} /* */"),
    "comment of stars": module(before=f"/***/ {HIDDEN} /* **/"),
    "nested comment": module(before=f"/* /* */ {HIDDEN}"),
    "continued comment": module(before=f"// \\\n{HIDDEN}"),
    "carriage return": module(before=f"// \r{HIDDEN}"),
    "quote in a comment": module(before=f'/* " */ {HIDDEN} /* " */'),
    "quote in a line comment": module(before=f'// "\n{HIDDEN} // "'),
    "comment in a file": module(after=f'.file 1 "/*"\n{HIDDEN}\n.file 2 "*/"'),
    "entry in a file": module(after=f'.file 1 "{HIDDEN}"'),
    "brace in a pragma": module(body='.pragma "{"; ret;', after=HIDDEN),
    "entry in a section": module(after=f".section .debug_str {{ .b8 1 }} {HIDDEN}"),
    "on one line": f".version 9.0 .target sm_90a .address_size 64 .visible .entry k(.param .u64 p) {{ ret; }} {HIDDEN}",
    "glued": module(after=".visible.entry hidden(){ret;}"),
    "directives glued": module(after=".visible .entry hidden.maxntid 32{ret;}"),
    "pragma before the body": module(directives='.pragma "nounroll"; .maxntid 32', after=HIDDEN),
    "lists in braces": module(body=".reg .b32 a, b; .reg .b64 p; mov.b64 p, {a, b}; ret;", after=HIDDEN),
    "blocks and labels": module(body="{ A: { B: ret; } } C:", after=HIDDEN),
    "space in an opcode": module(body=".reg .b32 a; .shared .b32 s; ld .shared .u32 a, [s]; ret;", after=HIDDEN),
}


@pytest.mark.processes
@pytest.mark.skipif(assembler._ptxas() is None, reason="needs ptxas")
@pytest.mark.parametrize("name", list(TRICKS))
def test_entries_are_those_that_ptxas_assembles(name: str) -> None:
    done = assembler.run(TRICKS[name], "sm_90a", 60)
    assert done.image, done.log
    assert set(entries(TRICKS[name])) == set(parse_figures(done.log, 1024))


REFUSED = {
    "open comment": (module(after="/* "), "comment has no end", 12),
    "slash and star": (module(after="/*/"), "comment has no end", 12),
    "open string": (module(before='.pragma "a;\n";'), "string has no end", 4),
    "preprocessor": (module(body='ret;\n#line 7 "x"\n'), "'#'", 11),
    "control character": (module(body="ret;\0"), "control character", 10),
    "entry in an entry": (module(body=HIDDEN), "inside of 'k'", 10),
    "no end": (f"{HEAD}.entry k() {{ ret;", "has no end", 4),
    "closed twice": (module(after="}"), "near '}'", 12),
    "semicolon missing": (module(body=f"ret }} {HIDDEN.replace('}', '')} {{ add;"), "an instruction has no end", 10),
    "twice": (module(after=module().split("64\n")[1]), "defined twice", 17),
    "expression": (module(before=".global .b32 v[1+2*3];"), "write the number", 4),
    "shift": (module(before=".global .b32 v[1<<30];"), "write the number", 4),
    "expression of registers": (module(body=".reg .b32 q<2+3>;"), "write the number", 10),
    "expression of threads": (module(directives=".maxntid 4*8"), "write the number", 8),
    "expression in brackets": (module(before=".shared .align (4) .b8 s;"), "number was expected", 4),
    "digits": (module(before=f".global .b32 v[{'9' * 5000}];"), "number was expected", 4),
    "overflow": (module(before=".global .b32 v[99999999999999999999];"), "is too large", 4),
    "line number": (module(body=".loc 1 99999999999999999999 0\nret;"), "is too large", 10),
    "registers": (module(body=".reg .b32 q<2000000000>;"), f"more than {MAX_REGISTERS} registers", 10),
    "registers in turns": (module(body=".reg .b32 q<60000>; .reg .b64 r<60000>;"), "more than", 10),
    "shared memory": (module(before=".shared .b8 s[2000000000];"), "absurdly large", 4),
    "local memory": (module(body=".local .b8 s[2000000000];"), "absurdly large", 10),
    "a large table": (module(before=".global .b8 s[2000000000] = {1};"), "absurdly large", 4),
    "dimensions": (module(before=".global .b8 s" + "[1000000]" * 16 + ";"), "absurdly large", 4),
    "texture": (module(before=".global .texref t;"), "not supported", 4),
    "no name": (module(before=".global .b8 ;"), "near ';'", 4),
    "include": (module(before='.include "/etc/passwd"'), "near '.include'", 4),
    "dwarf": (module(before="@@DWARF .byte 1"), "near '@'", 4),
    "depth": (module(body="{" * 100), "nested", 10),
    "entries": (module(after="".join(f".entry e{i}() {{ }}\n" for i in range(300))), "more than 256 entries", 268),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_not_understood_is_refused_with_its_line(name: str) -> None:
    ptx, words, line = REFUSED[name]
    with pytest.raises(PtxError, match=re.escape(words)) as caught:
        declarations(ptx)
    assert caught.value.ptx_line == line
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


def test_variables_behind_an_initialiser_are_seen() -> None:
    found = declarations(module(before=".global .b32 a = 1, hoard[1000], t[2][2] = {{1, 2}, {3, 4}}, s[] = {1, 2, 3};"))
    assert [(v.name, v.size) for v in found.variables] == [("a", 4), ("hoard", 4000), ("t", 16), ("s", 12)]


def test_numbers_of_every_base() -> None:
    found = declarations(module(before=".global .b8 a[010], b[0x10], c[0b11], d[12U], e[0];"))
    assert [v.size for v in found.variables] == [8, 16, 3, 12, 0]


def test_registers_of_each_function_count_alone() -> None:
    body = ".reg .b32 q<60000>; ret;"
    assert len(entries(module(body=body, after=f".entry other() {{ {body} }}"))) == 2


def test_a_printf_of_another_form_is_not_the_drivers() -> None:
    known = module(before=".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);")
    other = known.replace(".param .b32 r", ".param .s32 r")
    assert externals(known) == [] and externals(other) == ["vprintf"]


def test_silence_spares_comments_strings_and_other_names() -> None:
    before = '.extern .func (.param .b32 r) vprintf (.param .b64 a) // vprintf\n;\n.pragma "vprintf";'
    ptx = module(before=before, body="call (r), vprintf, (a); call my_vprintf;")
    silent = without_printing(ptx)
    assert len(silent.splitlines()) == len(ptx.splitlines())
    assert silent.count("_warplab_silence") == 2 and "{ st.param.b32 [r], 0; ret; }" in silent
    assert '"vprintf"' in silent and "// vprintf" in silent and "my_vprintf" in silent and ".extern" not in silent
