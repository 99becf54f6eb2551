"""Blackwell's tensor memory, and the tensor core that works on it."""

from __future__ import annotations

from functools import partial

from warplab.emulator.lowering import tcgen05
from warplab.emulator.lowering.rows import Row
from warplab.emulator.program import Work

TITLE = "Tensor memory"
_TESTED = "tests/emulator/tensor/test_tcgen05.py"
_BUILDER = "tests/emulator/tensor/tensor_memory.py"
_row = partial(Row, since={"": 100}, name_parts=2)
_MMA = "tcgen05.mma.cta_group::1"
_KINDS = "{.kind::f16,.kind::tf32,.kind::f8f6f4}"
_COMMIT = "tcgen05.commit{.cta_group::1,.cta_group::2}.mbarrier::arrive::one.shared::cluster"
_LANES = "4b32"
_SCALED = "[tmem] b64 b64 b32 [tmem] [tmem] pred"
_SPARSE_SCALED = "[tmem] b64 b64 [tmem] b32 [tmem] [tmem] pred"
_STATIONARY = "tcgen05.mma.ws.cta_group::1"

ROWS = (
    _row(
        (("tcgen05.alloc{.cta_group::1,.cta_group::2}.sync.aligned{,.shared::cta}.b32", "[] u32"),),
        tcgen05.allocate,
        Work.CONTROL,
        writes=False,
        tested=_TESTED,
    ),
    _row(
        (("tcgen05.dealloc{.cta_group::1,.cta_group::2}.sync.aligned.b32", "b32 u32"),),
        tcgen05.deallocate,
        Work.CONTROL,
        writes=False,
        tested=_TESTED,
    ),
    _row(
        (("tcgen05.relinquish_alloc_permit{.cta_group::1,.cta_group::2}.sync.aligned", ""),),
        tcgen05.relinquish,
        Work.CONTROL,
        writes=False,
        tested=_TESTED,
    ),
    _row(
        (
            ("tcgen05.ld.sync.aligned{.32x32b,.16x64b}.x4{,.pack::16b}.b32", "4b32 [tmem]"),
            ("tcgen05.ld.sync.aligned{.16x128b.x4,.16x256b.x2}{,.pack::16b}.b32", "8b32 [tmem]"),
            ("tcgen05.ld.sync.aligned.16x32bx2.x4{,.pack::16b}.b32", "4b32 [tmem] 4"),
        ),
        tcgen05.move,
        Work.MEMORY,
        tested=_TESTED,
    ),
    _row(
        (
            ("tcgen05.st.sync.aligned{.32x32b,.16x64b}.x4{,.unpack::16b}.b32", "[tmem] 4b32"),
            ("tcgen05.st.sync.aligned{.16x128b.x4,.16x256b.x2}{,.unpack::16b}.b32", "[tmem] 8b32"),
            ("tcgen05.st.sync.aligned.16x32bx2.x4{,.unpack::16b}.b32", "[tmem] 4 4b32"),
        ),
        tcgen05.move,
        Work.MEMORY,
        writes=False,
        tested=_BUILDER,
    ),
    _row(
        (("tcgen05{.wait::ld,.wait::st}.sync.aligned", ""),),
        tcgen05.wait,
        Work.CONTROL,
        writes=False,
        tested=_TESTED,
    ),
    _row(
        (("tcgen05{.fence::before_thread_sync,.fence::after_thread_sync}", ""),),
        tcgen05.fence,
        Work.CONTROL,
        writes=False,
        tested=_TESTED,
    ),
    _row(
        ((_COMMIT + ".b64", "[]"), (_COMMIT + ".multicast::cluster.b64", "[] b16")),
        tcgen05.commit,
        Work.CONTROL,
        writes=False,
        tested=_TESTED,
    ),
    _row(
        (
            (_MMA + _KINDS, f"[tmem] b64 b64 b32 {_LANES} pred"),
            (_MMA + _KINDS, "[tmem] b64 b64 b32 pred"),
            (_MMA + _KINDS, f"[tmem] [tmem] b64 b32 {_LANES} pred"),
            (_MMA + "{.kind::f16,.kind::tf32}", f"[tmem] b64 b64 b32 {_LANES} pred 3"),
            (_MMA + ".kind::i8", f"[tmem] b64 b64 b32 {_LANES} pred"),
            ("tcgen05.mma.cta_group::2" + _KINDS, "[tmem] b64 b64 b32 8b32 pred"),
            ("tcgen05.mma.cta_group::2.kind::i8", "[tmem] [tmem] b64 b32 pred"),
            ("tcgen05.mma.cta_group::2{.kind::mxf8f6f4,.kind::mxf4}.block_scale", _SCALED),
            (_MMA + ".kind::mxf8f6f4.block_scale{,.scale_vec::1X,.block32}", _SCALED),
            (_MMA + ".kind::mxf4.block_scale{,.scale_vec::2X,.block32}", _SCALED),
            (_MMA + ".kind::mxf4nvf4.block_scale{.scale_vec::2X,.scale_vec::4X,.block16,.block32}", _SCALED),
            (_MMA + _KINDS + ".ashift{,.collector::a::lastuse}", "[tmem] [tmem] b64 b32 pred"),
            ("tcgen05.mma.sp{.cta_group::1,.cta_group::2}" + _KINDS, "[tmem] b64 b64 [tmem] b32 pred"),
            ("tcgen05.mma.sp.cta_group::1.kind::i8", "[tmem] [tmem] b64 [tmem] b32 4b32 pred"),
            ("tcgen05.mma.sp.cta_group::1{.kind::mxf8f6f4,.kind::mxf4}.block_scale", _SPARSE_SCALED),
            ("tcgen05.mma.sp.cta_group::1.kind::mxf4nvf4.block_scale{.block16,.block32}", _SPARSE_SCALED),
            (_STATIONARY + _KINDS + "{,.collector::b0::fill,.collector::b3::lastuse}", "[tmem] b64 b64 b32 pred"),
            (_STATIONARY + "{.kind::f16,.kind::i8}", "[tmem] [tmem] b64 b32 pred b64"),
            ("tcgen05.mma.ws.sp.cta_group::1" + _KINDS, "[tmem] b64 b64 [tmem] b32 pred"),
            ("tcgen05.mma.ws.sp.cta_group::1.kind::i8", "[tmem] [tmem] b64 [tmem] b32 pred b64"),
        ),
        tcgen05.product,
        Work.TENSOR,
        writes=False,
        tested=_BUILDER,
    ),
    _row(
        (
            ("tcgen05.cp{.cta_group::1,.cta_group::2}{.128x256b,.128x128b,.4x256b,.32x128b.warpx4}", "[tmem] b64"),
            ("tcgen05.cp.cta_group::1.64x128b{.warpx2::02_13,.warpx2::01_23}", "[tmem] b64"),
            ("tcgen05.cp.cta_group::1{.128x256b,.32x128b.warpx4}.b8x16{.b4x16_p64,.b6x16_p32}", "[tmem] b64"),
        ),
        tcgen05.copy,
        Work.MEMORY,
        writes=False,
        tested=_BUILDER,
    ),
    _row(
        (("tcgen05.shift{.cta_group::1,.cta_group::2}.down", "[tmem]"),),
        tcgen05.shift,
        Work.MEMORY,
        writes=False,
        tested="tests/emulator/tensor/test_tcgen05_stationary.py",
    ),
)
