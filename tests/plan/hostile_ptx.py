"""PTX texts that a reader with the wrong patterns would need a square of their length for: a text for each length."""

from __future__ import annotations

from collections.abc import Callable

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def module(body: str = "ret;", before: str = "", after: str = "", directives: str = "") -> str:
    """A module with the kernel `k` of one pointer."""
    return f"{HEAD}{before}\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n{directives}\n{{\n{body}\n}}\n{after}\n"


def repeated(unit: str, place: str = "before", end: str = "") -> Callable[[int], str]:
    """A module with about n characters of a unit in one place."""
    return lambda n: module(**{place: unit * (n // len(unit)) + end})


# Texts that can be read, and others that are refused: neither may take long.
FAMILIES: dict[str, Callable[[int], str]] = {
    "entry prefixes": repeated(".visible .entry "),
    "entry prefixes on lines": repeated(".entry\n"),
    "entries without bodies": lambda n: module(before="".join(f".entry e{i}(\n" for i in range(n // 11))),
    "linking": repeated(".visible "),
    "externs": repeated(".extern .func ("),
    "externs of spaces": repeated(".extern .func" + " " * 50),
    "functions": lambda n: module(before="".join(f".func f{i};\n" for i in range(min(n // 11, 900)))),
    "line comments": repeated("//"),
    "lines of comments": repeated("//\n"),
    "open comments": repeated("/*"),
    "comments": repeated("/**/"),
    "stars": repeated("*", end="/", place="after"),
    "comment of stars": lambda n: module(before="/*" + "*" * n + "/"),
    "open comment of stars": lambda n: module(after="/*" + "*" * n),
    "quotes": repeated('"'),
    "open quotes in a pragma": lambda n: module(before=".pragma " + '"' * (n | 1)),
    "strings": repeated('"",', end='""', place="before"),
    "pragmas": repeated('.pragma "nounroll";\n', place="body", end="ret;"),
    "spaces": repeated(" "),
    "spaces in a file": lambda n: module(after='.file 1 "' + " " * n + '"'),
    "spaces before a file": lambda n: module(after=" " * n + ".file"),
    "file numbers": lambda n: module(after=".file " + "1" * n),
    "files": repeated('.file 1 "a"\n', place="after"),
    "tabs after a directive": repeated("\t", place="directives"),
    "new lines": repeated("\n"),
    "one name": repeated("a"),
    "names": repeated("a "),
    "dots": repeated("."),
    "long directive": lambda n: module(directives=".maxntid " + "1" * n),
    "dimensions": repeated(".maxntid 1, 1, 1\n", place="directives"),
    "globals": repeated(".global "),
    "a list of globals": lambda n: module(before=".global .b8 " + ",".join(f"v{i}" for i in range(n // 7)) + ";"),
    "shared variables": lambda n: module(
        before="".join(f".shared .b8 s{i};" for i in range(min(n // 14, 9000))), body="mov.u32 %r1, s1;" * (n // 16)
    ),
    "dimensions of a variable": lambda n: module(before=".global .b8 v" + "[1]" * (n // 3) + ";"),
    "open brackets": repeated("[", place="body"),
    "a variable of brackets": lambda n: module(before=".global .b8 v" + "[" * n),
    "initialisers": lambda n: module(before=".global .b8 v[] = {" + "1," * (n // 2) + "1};"),
    "open initialisers": lambda n: module(before=".global .b8 v = " + "{" * n),
    "parentheses": lambda n: module(before=".extern .func " + "(" * n),
    "attributes": repeated(".func .attribute(", place="before"),
    "open braces": repeated("{", place="body"),
    "closed braces": repeated("}", place="body"),
    "blocks": repeated("{}", place="body"),
    "semicolons": repeated(";", place="body"),
    "labels": lambda n: module(body="".join(f"L{i}:" for i in range(n // 7)) + "ret;"),
    "instructions": repeated("ret;", place="body"),
    "instruction without an end": repeated("add ", place="body"),
    "operands": lambda n: module(body="add " + "%r1," * (n // 4) + "%r1;"),
    "operands in braces": lambda n: module(body="add " + "{}" * (n // 2) + ";"),
    "registers": repeated(".reg .b32 %r;", place="body"),
    "register lists": lambda n: module(body=".reg .b32 " + ",".join(f"%r{i}" for i in range(n // 8)) + ";"),
    "locations": repeated(".loc 1 5 0\n", place="body"),
    "inlined locations": repeated(".loc 1 5 0, inlined_at 1 2 3\n", place="body"),
    "sections": repeated(".section .debug_str { .b8 1 }\n", place="after"),
    "open sections": repeated(".section ", place="after"),
    "printf": lambda n: module(
        before=".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);", body="call vprintf;" * (n // 13)
    ),
}
