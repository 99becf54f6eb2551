"""Copies and stores that complete later, and the mbarriers that say when."""

from __future__ import annotations

from collections.abc import Sequence

from warplab.emulator.lowering import asynchronous, bulk, cluster, launch_control
from warplab.emulator.lowering.instructions.alternatives import COMPLETES
from warplab.emulator.lowering.rows import Row
from warplab.emulator.program import Work

TITLE = "Asynchronous copies"
_DIMENSIONS = "{.1d,.2d,.3d,.4d,.5d}"
_REDUCTIONS = "{.add,.min,.max,.inc,.dec,.and,.or,.xor}"
_TO_CLUSTER = "cp.async.bulk.shared::cluster.global" + COMPLETES
_TENSOR = "cp.async.bulk.tensor" + _DIMENSIONS
_ROWS = "cp.async.bulk.tensor.2d"
_REDUCE = "cp.reduce.async.bulk.global.shared::cta.bulk_group"
_REDUCE_IN_CLUSTER = "cp.reduce.async.bulk.shared::cluster.shared::cta" + COMPLETES
_CANCEL, _QUERY = "clusterlaunchcontrol.try_cancel", "clusterlaunchcontrol.query_cancel"
_RED_ASYNC = "red.async.relaxed.cluster.shared::cluster" + COMPLETES


def _copy(parts: Sequence[str]) -> Work:
    return Work.MEMORY if parts[2:3] in (["ca"], ["cg"]) else Work.CONTROL


ROWS = (
    Row(
        (
            ("cp.async{.ca,.cg}.shared.global", "[] [] 16"),
            ("cp.async{.commit_group,.wait_all}", ""),
            ("cp.async.wait_group", "0"),
        ),
        asynchronous.copy,
        _copy,
        since={"": 80},
        writes=False,
        name_parts=2,
        tested="tests/emulator/asynchronous/test_async.py",
    ),
    Row(
        (
            (_TO_CLUSTER, "[] [] u32 []"),
            (_TO_CLUSTER + ".L2::cache_hint", "[] [] u32 [] b64"),
            (_TO_CLUSTER + ".multicast::cluster", "[] [] u32 [] b16"),
            (_TO_CLUSTER + ".multicast::cluster.L2::cache_hint", "[] [] u32 [] b16 b64"),
            ("cp.async.bulk.shared::cta.global" + COMPLETES, "[] [] u32 []"),
            ("cp.async.bulk.shared::cluster.shared::cta" + COMPLETES, "[] [] u32 []"),
            ("cp.async.bulk.global.shared::cta.bulk_group", "[] [] u32"),
            ("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint", "[] [] u32 b64"),
            ("cp.async.bulk.commit_group", ""),
            ("cp.async.bulk.wait_group{,.read}", "0"),
            ("cp.async.bulk.prefetch.L2.global", "[] u32"),
            (_TENSOR + ".shared::cluster.global{,.tile}" + COMPLETES, "[] [tensor] []"),
            (_TENSOR + ".shared::cta.global{,.tile}" + COMPLETES, "[] [tensor] []"),
            (_TENSOR + ".shared::cluster.global.tile" + COMPLETES + ".L2::cache_hint", "[] [tensor] [] b64"),
            (_TENSOR + ".shared::cluster.global.tile" + COMPLETES + ".multicast::cluster", "[] [tensor] [] b16"),
            (_TENSOR + ".cta_group::2.shared::cluster.global{,.tile}" + COMPLETES, "[] [tensor] []"),
            (
                _TENSOR + ".shared::cluster.global" + COMPLETES + ".multicast::cluster.cta_group::2",
                "[] [tensor] [] b16",
            ),
            (_ROWS + ".shared::cluster.global.tile::gather4" + COMPLETES, "[] [rows] []"),
            (_ROWS + ".shared::cta.global.tile::gather4" + COMPLETES, "[] [rows] []"),
            (_ROWS + ".global.shared::cta.tile::scatter4.bulk_group", "[rows] []"),
            ("cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4", "[rows]"),
            (_TENSOR + ".global.shared::cta{,.tile}.bulk_group", "[tensor] []"),
            (_TENSOR + ".global.shared::cta.tile.bulk_group.L2::cache_hint", "[tensor] [] b64"),
            ("cp.async.bulk.prefetch.tensor" + _DIMENSIONS + ".L2.global{,.tile}", "[tensor]"),
        ),
        bulk.bulk,
        Work.CONTROL,
        stores=True,
        since={"": 90, "cta_group__2": 100, "tile__gather4": 100, "tile__scatter4": 100},
        refused=(
            ("cp.async.bulk.tensor{.3d,.4d,.5d}.shared::cluster.global.im2col" + COMPLETES, "[] [tensor] [] {b16}"),
            ("cp.async.bulk.tensor{.3d,.4d,.5d}.global.shared::cta.im2col_no_offs.bulk_group", "[tensor] []"),
        ),
        writes=False,
        name_parts=3,
        tested="tests/emulator/asynchronous/bulk_kernel.py",
    ),
    Row(
        (
            (_REDUCE + ".add{.u32,.s32,.u64,.f32,.f64}", "[] [] u32"),
            (_REDUCE + ".add.noftz{.f16,.bf16}", "[] [] u32"),
            (_REDUCE + "{.min,.max}{.u32,.s32,.u64,.s64,.f16,.bf16}", "[] [] u32"),
            (_REDUCE + "{.inc,.dec}.u32", "[] [] u32"),
            (_REDUCE + "{.and,.or,.xor}{.b32,.b64}", "[] [] u32"),
            (_REDUCE_IN_CLUSTER + "{.add,.min,.max}{.u32,.s32}", "[] [] u32 []"),
            (_REDUCE_IN_CLUSTER + ".add.u64", "[] [] u32 []"),
            (_REDUCE_IN_CLUSTER + "{.inc,.dec}.u32", "[] [] u32 []"),
            (_REDUCE_IN_CLUSTER + "{.and,.or,.xor}.b32", "[] [] u32 []"),
            (
                "cp.reduce.async.bulk.tensor" + _DIMENSIONS + ".global.shared::cta" + _REDUCTIONS + ".tile.bulk_group",
                "[tensor] []",
            ),
        ),
        bulk.bulk,
        Work.CONTROL,
        stores=True,
        since={"": 90},
        writes=False,
        name_parts=2,
        tested="tests/emulator/asynchronous/bulk_kernel.py",
    ),
    Row(
        (
            ("st.async{,.weak}.shared::cluster" + COMPLETES + "{.b32,.b64,.u32,.s64,.f32,.f64}", "[] T []"),
            ("st.async.shared::cluster" + COMPLETES + "{.v2,.v4}{.b32,.f32}", "[] VT []"),
            ("st.async.shared::cluster" + COMPLETES + ".v2{.b64,.f64}", "[] 2T []"),
            (_RED_ASYNC + "{.add,.min,.max}{.u32,.s32}", "[] T []"),
            (_RED_ASYNC + "{.and,.or,.xor}.b32", "[] T []"),
            (_RED_ASYNC + "{.inc,.dec}.u32", "[] T []"),
            (_RED_ASYNC + ".add.u64", "[] T []"),
        ),
        cluster.remote,
        Work.CONTROL,
        stores=True,
        since={"": 90},
        writes=False,
        name_parts=2,
        tested="tests/emulator/asynchronous/test_clusters.py",
    ),
    Row(
        (
            ("mbarrier.init.shared.b64", "[] u32"),
            ("mbarrier.inval.shared.b64", "[]"),
            ("mbarrier.arrive.shared.b64", "b64 []"),
            ("mbarrier.arrive.expect_tx.shared.b64", "b64 [] u32"),
            ("mbarrier.expect_tx.relaxed.cta.shared.b64", "[] u32"),
            ("mbarrier.arrive{,.release.cluster}.shared::cluster.b64", "_ []"),
            ("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64", "_ [] u32"),
            ("mbarrier.arrive_drop.release.cluster.shared::cluster.b64", "_ []"),
            ("mbarrier{.test_wait,.try_wait}.shared.b64", "pred [] b64"),
            ("mbarrier{.test_wait,.try_wait}.parity.shared.b64", "pred [] u32"),
        ),
        asynchronous.mbarrier,
        Work.CONTROL,
        since={"": 80, "expect_tx": 90, "try_wait": 90, "cluster": 90, "shared__cluster": 90},
        tested="tests/emulator/asynchronous/test_async.py",
    ),
    Row(
        ((_CANCEL + ".async{,.shared::cta}.mbarrier::complete_tx::bytes{,.multicast::cluster::all}.b128", "[] []"),),
        launch_control.try_cancel,
        Work.CONTROL,
        stores=True,
        since={"": 100},
        writes=False,
        name_parts=2,
        tested="tests/emulator/asynchronous/test_launch_control.py",
    ),
    Row(
        (
            (_QUERY + ".is_canceled.pred.b128", "pred b128"),
            (_QUERY + ".get_first_ctaid.v4.b32.b128", "4b32 b128"),
            (_QUERY + "{.get_first_ctaid::x,.get_first_ctaid::y,.get_first_ctaid::z}.b32.b128", "b32 b128"),
        ),
        launch_control.query_cancel,
        Work.INTEGER,
        since={"": 100},
        name_parts=2,
        tested="tests/emulator/asynchronous/test_launch_control.py",
    ),
    Row(refused=(("tensormap.replace.tile.global_address.global.b1024.b64", "[] u64"),), since={"": 90}),
)
