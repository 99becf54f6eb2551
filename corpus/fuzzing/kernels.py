"""Kernels that misuse memory on purpose: straight PTX of random instructions with random operands.

A kernel has two buffers, `a` (an input of 4 KiB) and `b` (scratch of 8 KiB, the first of which it may use for tensor
maps that it writes itself), a tensor map of `a` by value, shared arrays and mbarriers, and a local array. Addresses are
places in all of these, near and far from them, and anything else.
"""

from __future__ import annotations

import random

from corpus.fuzzing.mutate import EXTREMES
from warplab.emulator.core.state.bulk_layout import (
    BOX_BITS,
    MAP_MAGIC,
    META_KIND_SHIFT,
    META_SIZE_SHIFT,
    META_SWIZZLE_SHIFT,
    STEP_BITS,
    T_ADDRESS,
    T_BOX,
    T_MAGIC,
    T_META,
    T_SHAPE,
    T_STEPS,
    T_STRIDES,
)

A_BYTES, B_BYTES, TILE_BYTES, LOCAL_BYTES = 4096, 8192, 8192, 64
MAPS = (0, 128, 256)  # places in b where kernels write maps
_ENTRY = ".visible .entry fuzz (.param .u64 a, .param .u64 b, .param .align 64 .b8 map[128])"
EMPTY = f".version 8.7\n.target sm_90a\n.address_size 64\n{_ENTRY} {{ ret; }}\n"
_HEADER = f"""
.version 8.7
.target sm_90a
.address_size 64
.const .align 16 .b8 constants[64] = {{1, 2, 3, 4}};
.global .align 16 .b8 table[256];
.global .align 1 .b8 format[24] = {{37, 100, 32, 37, 115, 32, 37, 49, 48, 48, 48, 48, 48, 100, 10, 0}};
.extern .shared .align 1024 .b8 dynamic[];
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v);
.func (.param .b64 r) twice (.param .b64 x) {{
    .reg .b64 %x<3>;
    ld.param.u64 %x1, [x];
    add.u64 %x2, %x1, %x1;
    st.param.b64 [r], %x2;
    ret;
}}
{_ENTRY} {{
    .reg .b64 %a<4>;
    .reg .b64 %v<40>;
    .reg .b32 %r<40>;
    .reg .b16 %h<8>;
    .reg .f32 %f<140>;
    .reg .b128 %q<2>;
    .reg .pred %p<4>;
    .shared .align 1024 .b8 tile[{TILE_BYTES}];
    .shared .align 8 .b64 bar[4];
    .local .align 16 .b8 stack[{LOCAL_BYTES}];
    ld.param.u64 %a1, [a];
    ld.param.u64 %a2, [b];
    mov.b64 %a3, map;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %laneid;
    cvt.u64.u32 %v1, %r2;
    setp.eq.u32 %p1, %r1, 0;
    setp.lt.u32 %p2, %r2, 7;
    setp.ne.u32 %p3, %r1, 0xffff;
    @%p1 mbarrier.init.shared.b64 [bar], 1;
    @%p1 mbarrier.init.shared.b64 [bar+8], 32;
    bar.sync 0;
"""
_SHUFFLES = ("up", "down", "bfly", "idx")
_DONE = ".mbarrier::complete_tx::bytes"
_TYPES = ("u8", "s8", "b16", "u32", "s32", "f32", "b64", "f64", "b128")
_REGISTERS = {"8": "%h", "16": "%h", "32": "%r", "64": "%v", "128": "%q"}


class Writer:
    """Writes one kernel."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.labels = 0

    def say(self, text: str) -> None:
        """Add an instruction, perhaps for some lanes only."""
        guard = self.rng.choice(("", "", "", "@%p1 ", "@%p2 ", "@!%p2 "))
        self.lines.append(f"    {guard}{text};")

    def always(self, text: str) -> None:
        self.lines.append(f"    {text};")

    def word(self) -> int:
        """A 64-bit number, often a special one."""
        rng = self.rng
        return rng.choice((rng.choice(EXTREMES), rng.getrandbits(64), rng.getrandbits(rng.randrange(1, 33))))

    def small(self, limit: int) -> int:
        """A place near a piece of memory of so many bytes, mostly in it."""
        rng = self.rng
        unit = rng.choice((1, 4, 8, 16, 16, 64, 128))
        return rng.choice((
            rng.randrange(0, limit, unit), rng.randrange(0, limit, unit), rng.randrange(0, limit, unit),
            limit - unit, limit, limit - 1, -unit, -1, rng.choice(EXTREMES),
        ))  # fmt: skip

    def address(self, space: str) -> str:
        """Put an address of a space into a register of 64 bits, other in each lane or not; returns the operand."""
        rng = self.rng
        name = f"%v{rng.randrange(2, 12)}"
        if space == "shared":
            self.always(f"mov.b64 {name}, {rng.choice(('tile', 'bar', 'dynamic'))}")
            self._offset(name, self.small(TILE_BYTES))
            if rng.random() < 0.2:
                self._offset(name, rng.randrange(6) << 24)  # of a peer
        elif space == "local":
            self.always(f"mov.b64 {name}, stack")
            self._offset(name, self.small(LOCAL_BYTES))
        elif space == "generic" and rng.random() < 0.4:
            of = rng.choice(("shared", "local"))
            self.always(f"cvta.{of}.u64 {name}, {self.address(of)}")
        elif space == "const":
            self.always(f"mov.b64 {name}, constants")
            self._offset(name, self.small(64))
        else:
            base = rng.choice(("%a1", "%a2", "%a2", "%a3"))
            self.always(f"add.u64 {name}, {base}, {self.small(A_BYTES) & (1 << 64) - 1}")
        if rng.random() < 0.15:
            self.always(f"mov.b64 {name}, {self.word() & (1 << 64) - 1}")
        if rng.random() < 0.5:
            stride = rng.choice((1, 2, 4, 8, 16, 16, 32, 128, rng.choice(EXTREMES))) & (1 << 63) - 1
            self.always(f"mad.lo.u64 {name}, %v1, {stride}, {name}")
        return name

    def _offset(self, name: str, number: int) -> None:
        self.always(f"add.s64 {name}, {name}, {number & (1 << 64) - 1}")

    def at(self, space: str) -> str:
        """An address operand in brackets."""
        offset = self.rng.choice((0, 0, 0, 4, 16, -16, 2**31 - 1, -(2**31) + 16, 1 << 20))
        return f"[{self.address(space)}+{offset}]" if offset else f"[{self.address(space)}]"

    def number(self, bits: int = 32) -> str:
        """A number in a register or as it stands."""
        name = f"%{'r' if bits == 32 else 'v'}{self.rng.randrange(12, 20)}"
        self.always(f"mov.b{bits} {name}, {self.word() & (1 << bits) - 1}")
        return name

    def write_map(self) -> None:
        """Write a tensor map of random fields to b: one that could be, or one with anything in it."""
        rng, place = self.rng, self.rng.choice(MAPS)
        rank = rng.randrange(1, 6)
        size = rng.choice((1, 2, 4, 8))
        fields = {T_MAGIC: MAP_MAGIC}
        swizzle = rng.choice((0, 0, 1, 3, 7, rng.randrange(8)))
        kind = rng.randrange(5)
        fields[T_META] = rank | size << META_SIZE_SHIFT | swizzle << META_SWIZZLE_SHIFT | kind << META_KIND_SHIFT
        for i in range(5):
            fields[T_SHAPE + i] = rng.choice((1, 4, 64, 100)) if i < rank else 1
            box = rng.choice((1, 2, 4, 8, 16, 32, 64, 256)) if i < rank else 1
            step = rng.choice((1, 1, 1, 2, 8)) if i < rank else 1
            fields[T_BOX] = fields.get(T_BOX, 0) | box << BOX_BITS * i
            fields[T_STEPS] = fields.get(T_STEPS, 0) | step << STEP_BITS * i
            if i < 4:
                fields[T_STRIDES + i] = rng.choice((0, 16, 64, 256, 1024))
        for _ in range(rng.choice((0, 0, 1, 3))):
            fields[rng.choice((T_META, T_SHAPE, T_SHAPE + 1, T_STRIDES, T_BOX, T_STEPS))] = self.word()
        for index, value in fields.items():
            self.always(f"st.global.u64 [%a2+{place + 8 * index}], {value & (1 << 64) - 1}")
        self.always(f"add.u64 %v20, {rng.choice(('%a1', '%a2'))}, {self.small(A_BYTES) & (1 << 64) - 1}")
        self.always(f"st.global.u64 [%a2+{place + 8 * T_ADDRESS}], %v20")

    def spoil_map(self) -> None:
        """Change a word of a map, perhaps while a copy is in flight."""
        place = self.rng.choice(MAPS) + 8 * self.rng.randrange(16)
        self.say(f"st.global.u64 [%a2+{place}], {self.word() & (1 << 64) - 1}")

    def map_operand(self) -> tuple[str, int]:
        """The address of a tensor map and a number of dimensions."""
        where = self.rng.choice(("%a3", "%a2", "%a2", f"%a2+{self.rng.choice(MAPS)}", "%a1"))
        return where, self.rng.choice((1, 2, 2, 3, 4, 5))


def _access(w: Writer) -> None:
    kind = w.rng.choice(_TYPES)
    space = w.rng.choice(("global", "shared", "local", "generic", "const"))
    said = "" if space == "generic" else f".{space}"
    bits = "".join(c for c in kind if c.isdigit())
    count = w.rng.choice((1, 1, 2, 4)) if bits != "128" else 1
    prefix = "%f" if kind == "f32" else _REGISTERS[bits]
    most = 2 if prefix == "%q" else 4
    data = [f"{prefix}{w.rng.randrange(most)}" for _ in range(count)]
    operand = f"{{{', '.join(data)}}}" if count > 1 else data[0]
    vector = f".v{count}" if count > 1 else ""
    if w.rng.random() < 0.5:
        w.say(f"ld{said}{vector}.{kind} {operand}, {w.at(space)}")
    elif space != "const":
        w.say(f"st{said}{vector}.{kind} {w.at(space)}, {operand}")


def _atomic(w: Writer) -> None:
    space = w.rng.choice(("global", "shared", "generic"))
    said = "" if space == "generic" else f".{space}"
    operation, kind = w.rng.choice((
        ("add", "u32"), ("add", "u64"), ("add", "f32"), ("add", "f64"), ("min", "s64"), ("max", "u32"), ("exch", "b64"),
        ("cas", "b32"), ("cas", "b64"), ("cas", "b16"), ("inc", "u32"), ("and", "b64"), ("add.noftz", "f16x2"),
    ))  # fmt: skip
    wide = "%h" if "16" in kind else "%v" if "64" in kind else "%r"
    register = {"f32": "%f", "f64": "%v", "f16x2": "%r"}.get(kind, wide)
    values = ", ".join(f"{register}{w.rng.randrange(1, 6)}" for _ in range(2 if operation == "cas" else 1))
    if w.rng.random() < 0.5:
        w.say(f"atom{said}.{operation}.{kind} {register}7, {w.at(space)}, {values}")
    elif operation not in ("exch", "cas"):
        w.say(f"red{said}.{operation}.{kind} {w.at(space)}, {values}")


def _copy(w: Writer) -> None:
    form, size = w.rng.choice((("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)))
    more = w.rng.choice(("", "", f", {w.number()}", ", %p2"))
    w.say(f"cp.async.{form}.shared.global {w.at('shared')}, {w.at('global')}, {size}{more}")


def _groups(w: Writer) -> None:
    w.say(w.rng.choice((
        "cp.async.commit_group", f"cp.async.wait_group {w.rng.randrange(4)}", "cp.async.wait_all",
        f"cp.async.mbarrier.arrive.noinc.shared.b64 {w.at('shared')}", "cp.async.mbarrier.arrive.shared.b64 [bar]",
        "cp.async.bulk.commit_group", f"cp.async.bulk.wait_group {w.rng.randrange(4)}",
        "cp.async.bulk.wait_group.read 0",
        "fence.proxy.async",
        "bar.warp.sync 0xffffffff", "barrier.cluster.arrive", "barrier.cluster.wait",
    )))  # fmt: skip


def _bulk(w: Writer) -> None:
    size, bar = w.rng.choice(("16", "128", "1024", "0", w.number())), w.rng.choice(("[bar]", "[bar]", w.at("shared")))
    match w.rng.randrange(6):
        case 0:
            w.say(f"cp.async.bulk.shared::cluster.global{_DONE} {w.at('shared')}, {w.at('global')}, {size}, {bar}")
        case 1:
            w.say(f"cp.async.bulk.global.shared::cta.bulk_group {w.at('global')}, {w.at('shared')}, {size}")
        case 2:
            w.say(f"cp.async.bulk.shared::cluster.shared::cta{_DONE} {w.at('shared')}, {w.at('shared')}, {size}, {bar}")
        case 3:
            kind = w.rng.choice(("add.u32", "add.f64", "min.s64", "add.noftz.f16", "xor.b64"))
            w.say(
                f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{kind} {w.at('global')}, {w.at('shared')}, {size}"
            )
        case 4:
            mask = f"%h{w.rng.randrange(4)}"
            w.always(f"mov.b16 {mask}, {w.rng.getrandbits(16)}")
            w.say(
                f"cp.async.bulk.shared::cluster.global{_DONE}.multicast::cluster "
                f"{w.at('shared')}, {w.at('global')}, {size}, {bar}, {mask}"
            )
        case _:
            kind = w.rng.choice(("add.u32", "inc.u32", "and.b32", "add.u64"))
            w.say(
                f"cp.reduce.async.bulk.shared::cluster.shared::cta{_DONE}.{kind} "
                f"{w.at('shared')}, {w.at('shared')}, {size}, {bar}"
            )


def _tensor(w: Writer) -> None:
    if w.rng.random() < 0.6:
        w.write_map()
    where, rank = w.map_operand()
    places = ", ".join(str(w.rng.choice((0, 0, 0, 4, 16, 96, -4, -16, 2**31 - 1, -(2**31)))) for _ in range(rank))
    tensor = f"[{where}, {{{places}}}]"
    target = "[tile]" if w.rng.random() < 0.5 else w.at("shared")
    match w.rng.randrange(4):
        case 0 | 1:
            w.say(
                f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                f"{target}, {tensor}, [bar]"
            )
        case 2:
            w.say(f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group {tensor}, {target}")
        case _:
            operation = w.rng.choice(("add", "min", "xor", "inc"))
            w.say(
                f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{operation}.tile.bulk_group {tensor}, {target}"
            )
    if w.rng.random() < 0.7:
        w.spoil_map()


def _mbarrier(w: Writer) -> None:
    at = w.rng.choice(("[bar]", "[bar+8]", w.at("shared")))
    w.say(w.rng.choice((
        f"mbarrier.init.shared.b64 {at}, {w.number()}", f"mbarrier.inval.shared.b64 {at}",
        f"mbarrier.arrive.shared.b64 _, {at}", f"mbarrier.arrive.shared.b64 %v21, {at}, {w.number()}",
        f"mbarrier.arrive.expect_tx.shared.b64 _, {at}, {w.number()}", f"mbarrier.test_wait.shared.b64 %p3, {at}, %v21",
        f"mbarrier.try_wait.parity.shared.b64 %p3, {at}, {w.number()}", f"mbarrier.expect_tx.shared.b64 {at}, 64",
        f"mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64 {at}, {w.number()}",
        f"mbarrier.arrive_drop.shared.b64 _, {at}", "mbarrier.pending_count.b64 %r21, %v21",
    )))  # fmt: skip


def _matrix(w: Writer) -> None:
    count, trans = w.rng.choice((1, 2, 4)), w.rng.choice(("", ".trans"))
    registers = ", ".join(f"%r{20 + i}" for i in range(count))
    form = f".sync.aligned.m8n8.x{count}{trans}.shared.b16"
    address = w.at("shared")
    line = (
        f"ldmatrix{form} {{{registers}}}, {address}"
        if w.rng.random() < 0.5
        else f"stmatrix{form} {address}, {{{registers}}}"
    )
    w.always(line)


def _wgmma(w: Writer) -> None:
    n = w.rng.choice((8, 16, 64, 128))
    registers = ", ".join(f"%f{i}" for i in range(n // 2))
    a, b = w.number(64), w.number(64)
    w.always("wgmma.fence.sync.aligned")
    first = a if w.rng.random() < 0.7 else "{%r20, %r21, %r22, %r23}"
    flags = "1, 1, 0, 1" if first == a else "1, 1, 1"
    w.always(f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{registers}}}, {first}, {b}, %p3, {flags}")
    if w.rng.random() < 0.7:
        w.always("wgmma.commit_group.sync.aligned")
        w.always(f"wgmma.wait_group.sync.aligned {w.rng.randrange(3)}")


def _cluster(w: Writer) -> None:
    w.say(w.rng.choice((
        f"mapa.shared::cluster.u32 %r22, {w.number()}, {w.rng.choice(('0', '1', '2', w.number()))}",
        f"mapa.u64 %v22, {w.address('generic')}, {w.rng.choice(('0', '1', w.number()))}",
        f"getctarank.u64 %r23, {w.address('generic')}", f"getctarank.shared::cluster.u32 %r23, {w.number()}",
        f"isspacep.shared %p3, {w.address('generic')}", f"isspacep.global %p3, {w.address('generic')}",
        f"st.async.shared::cluster{_DONE}.v2.b64 {w.at('shared')}, {{%v1, %v2}}, {w.at('shared')}",
        f"st.async.shared::cluster{_DONE}.b32 {w.at('shared')}, %r1, [bar]",
        f"red.async.relaxed.cluster.shared::cluster{_DONE}.add.u64 {w.at('shared')}, %v1, [bar]",
    )))  # fmt: skip


def _control(w: Writer) -> None:
    w.labels += 1
    end = f"L{w.labels}"
    match w.rng.randrange(7):
        case 0:
            w.always(f"@%p{w.rng.randrange(1, 4)} bra {end}")
            _access(w)
        case 1:
            w.lines.append(f"T{w.labels}: .branchtargets {end}, {end};")
            w.always(f"brx.idx {w.number()}, T{w.labels}")
        case 2:
            w.always(f"bar.sync {w.rng.choice(('0', '1', w.number()))}{w.rng.choice(('', ', 32', ', 64'))}")
        case 3:
            w.lines.append(
                f"    {{ .param .b64 x0; .param .b64 y0; st.param.b64 [x0+{w.rng.choice((0, 8, 4, 2**31 - 1))}], %v1; "
                f"call (y0), twice, (x0); ld.param.b64 %v23, [y0+{w.rng.choice((0, 8, -8))}]; }}"
            )
        case 4:
            w.lines.append("    { .param .b64 f0; .param .b64 v0; .param .b32 r0;")
            w.always(f"st.param.b64 [f0], {w.rng.choice((w.address('generic'), '%a1', '%a2'))}")
            w.always(f"st.param.b64 [v0], {w.address('generic')}")
            w.lines.append("    call (r0), vprintf, (f0, v0); }")
        case 5:
            mask = w.rng.choice(("0xffffffff", w.number()))
            w.always(f"shfl.sync.{w.rng.choice(_SHUFFLES)}.b32 %r24|%p3, %r1, {w.number()}, {w.number()}, {mask}")
        case _:
            mask = w.rng.choice(("0xffffffff", w.number()))
            w.say(w.rng.choice((
                f"vote.sync.ballot.b32 %r25, %p2, {mask}", f"match.any.sync.b64 %r25, %v1, {mask}",
                f"redux.sync.add.s32 %r25, %r1, {mask}", "ld.param.u64 %v24, [map+1000000]",
                "ld.param.v2.u64 {%v24, %v25}, [map+120]",
                f"elect.sync %r25|%p3, {mask}", "activemask.b32 %r25",
            )))  # fmt: skip
    w.lines.append(f"{end}:")


_PARTS = (
    (_access, 5), (_atomic, 3), (_copy, 2), (_groups, 4), (_bulk, 4), (_tensor, 6), (_mbarrier, 4), (_matrix, 2),
    (_wgmma, 1), (_cluster, 2), (_control, 3),
)  # fmt: skip


def kernel(rng: random.Random) -> str:
    """The PTX of a kernel named `fuzz`."""
    writer = Writer(rng)
    for _ in range(rng.choice((2, 5, 12, 30))):
        (part,) = rng.choices([p for p, _ in _PARTS], [n for _, n in _PARTS])
        part(writer)
    return _HEADER + "\n".join(writer.lines) + "\n    ret;\n}\n"
