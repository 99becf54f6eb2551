"""Barriers of a block and of a cluster, and fences."""

from __future__ import annotations

from warplab.emulator.lowering import control
from warplab.emulator.lowering.rows import Row
from warplab.emulator.program import Work

TITLE = "Barriers and fences"
ROWS = (
    Row(
        (
            ("bar.sync", "0"),
            ("bar{.sync,.arrive}", "1 64"),
            ("bar.red.popc.u32", "u32 0 pred"),
            ("bar.red{.and,.or}.pred", "pred 0 pred"),
            ("bar.warp.sync", "b32"),
        ),
        control.barrier,
        Work.CONTROL,
        writes=False,
        tested="tests/emulator/test_findings.py",
    ),
    Row(
        (
            ("barrier.sync", "0"),
            ("barrier{.cta,}{.sync,.arrive}{,.aligned}", "1 64"),
            ("barrier.red.popc.u32", "u32 0 pred"),
            ("barrier.red{.and,.or}.pred", "pred 0 pred"),
            ("barrier.cluster.arrive{,.release,.relaxed}{,.aligned}", ""),
            ("barrier.cluster.wait{,.acquire}{,.aligned}", ""),
        ),
        control.barrier,
        Work.CONTROL,
        since={"cluster": 90},
        writes=False,
        tested="tests/emulator/test_forms.py",
    ),
    Row((("membar{.cta,.gl,.sys}", ""),), control.fence, Work.CONTROL, writes=False),
    Row(
        (
            ("fence{,.sc,.acq_rel}{.cta,.cluster,.gpu,.sys}", ""),
            ("fence.proxy{.alias,.async,.async.global,.async.shared::cta,.async.shared::cluster}", ""),
            ("fence.mbarrier_init.release.cluster", ""),
            ("fence.proxy.tensormap::generic.acquire.gpu", "[] 128"),
            ("fence.proxy.tensormap::generic.release.gpu", ""),
        ),
        control.fence,
        Work.CONTROL,
        since={"cluster": 90, "async": 90, "mbarrier_init": 90, "tensormap__generic": 90},
        writes=False,
        tested="tests/emulator/asynchronous/test_proxies.py",
    ),
)
