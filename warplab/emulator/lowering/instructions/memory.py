"""Loads, stores, and hints about caches."""

from __future__ import annotations

from collections.abc import Sequence

from warplab.emulator.lowering import cluster, memory
from warplab.emulator.lowering.instructions.alternatives import RANDOM
from warplab.emulator.lowering.rows import Row, expand
from warplab.emulator.program import Work

TITLE = "Memory"
_ORDER = "{,.volatile,.relaxed.cta,.relaxed.gpu,.relaxed.sys,.acquire.cta,.acquire.gpu,.acquire.sys}"
_STORE_ORDER = "{,.volatile,.relaxed.cta,.relaxed.gpu,.relaxed.sys,.release.cta,.release.gpu,.release.sys}"
_SPACE = "{,.global,.shared,.shared::cta}"
_WIDE = "{.v8.b32,.v8.u32,.v8.s32,.v8.f32,.v4.b64,.v4.u64,.v4.s64,.v4.f64}"  # 256 bits a lane
_SINCE = dict.fromkeys(expand(_WIDE.replace("{.", "{").replace(",.", ",")), 100) | {"L2__256B": 80}
_DATA = "{.b8,.u8,.s8,.b16,.u16,.s16,.b32,.u32,.s32,.f32,.b64,.u64,.s64,.f64}"


def _load(parts: Sequence[str]) -> Work:
    """Parameters and constants are operands of the instructions that use them."""
    return Work.MOVE if {"param", "param__entry", "param__func", "const"} & set(parts) else Work.MEMORY


ROWS = (
    Row(
        (
            ("ld" + _ORDER + _SPACE + _DATA, "T []"),
            ("ld{.local,.const}" + _DATA, "T []"),
            ("ld{,.global,.shared,.local,.const}{.v2,.v4}{.b8,.u8,.b16,.u16,.b32,.u32,.f32}", "VT []"),
            ("ld{,.global,.shared,.local,.const}.v2{.b64,.u64,.f64}", "2T []"),
            ("ld.global{.ca,.cg,.cs,.lu,.cv}.f32", "T []"),
            ("ld.global{,.nc}.L1::no_allocate{,.L2::128B}.f32", "T []"),
            ("ld{,.volatile,.relaxed.gpu,.acquire.gpu}{,.global}" + _WIDE, "VT []"),
            ("ld.global{,.nc}{,.L1::no_allocate}{,.L2::evict_last,.L2::128B}" + _WIDE, "VT []"),
            ("ld.global.nc{,.L1::evict_last}{,.L2::64B,.L2::256B}{.b32,.v2.b32,.v4.b32}", "VT []"),
            ("ld{,.global,.shared}.b128", "T []"),
            ("ldu.global" + _DATA, "T []"),
        ),
        memory.load,
        _load,
        since=_SINCE,
        tested="tests/emulator/test_forms.py",
    ),
    Row(
        (
            ("st" + _STORE_ORDER + _SPACE + _DATA, "[] T"),
            ("st.local" + _DATA, "[] T"),
            ("st{,.global,.shared,.local}{.v2,.v4}{.b8,.u8,.b16,.u16,.b32,.u32,.f32}", "[] VT"),
            ("st{,.global,.shared,.local}.v2{.b64,.u64,.f64}", "[] 2T"),
            ("st.global{.wb,.cg,.cs,.wt,.L1::no_allocate}.f32", "[] T"),
            ("st{,.volatile,.relaxed.gpu,.release.gpu}{,.global}" + _WIDE, "[] VT"),
            ("st.global{,.L1::no_allocate}{,.L2::evict_last}" + _WIDE, "[] VT"),
        ),
        memory.store,
        Work.MEMORY,
        stores=True,
        since=_SINCE,
        writes=False,
        tested=RANDOM,
    ),
    Row(
        (
            ("prefetch{,.global,.local}{.L1,.L2}", "[]"),
            ("prefetchu.L1", "[]"),
            ("discard.global.L2", "[] 128"),
            ("applypriority.global.L2::evict_normal", "[] 128"),
            ("prefetch{,.param,.const}.tensormap", "[]"),
        ),
        memory.hint,
        Work.MOVE,
        since={"discard": 80, "applypriority": 80, "tensormap": 90},
        writes=False,
    ),
    Row(
        (("createpolicy.fractional{.L2::evict_last,.L2::evict_first,.L2::evict_normal}.b64", "T 1.0"),),
        memory.policy,
        Work.MOVE,
        since={"": 80},
    ),
    Row(
        (("mapa{.u64,.shared::cluster.u32,.shared::cluster.u64}", "T T u32"),),
        cluster.map_address,
        Work.CONTROL,
        since={"": 90},
        tested="tests/emulator/asynchronous/test_clusters.py",
    ),
    Row(
        (("getctarank{,.shared::cluster}{.u32,.u64}", "u32 T"),),
        cluster.block_rank,
        Work.CONTROL,
        since={"": 90},
        tested="tests/emulator/asynchronous/test_clusters.py",
    ),
    Row(
        refused=(("multimem.ld_reduce.global.add.f32", "T []"), ("multimem{.st,.red.add}.global.f32", "[] T")),
        since={"": 90},
    ),
)
