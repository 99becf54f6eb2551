"""Bulk and tensor copies come as late as the waits allow, and what does not wait for them is found.

What they move is tested against NumPy on the kernels of corpus/emulator (test_corpus.py).
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.asynchronous.bulk_kernel import FIRST, WAITING, A, run
from warplab.hardware.chips import H200
from warplab.plan.execution import CacheTraffic, Execution, Finding, FindingKind

pytestmark = pytest.mark.stored


def only(result: Execution, kind: FindingKind, line: int) -> Finding:
    """The one finding; `line` counts the body's lines from 0. The compiler may have unrolled a loop around it."""
    assert {(f.kind, f.line - FIRST) for f in result.findings} == {(kind, line)}, result.findings
    return result.findings[0]


LOADED = """
if (t == 0) { expect(&full, 1024); LOAD(tile, a, 1024, &full) }
%s
for (int i = t; i < 256; i += 64) out[i] = tile[255 - i];
"""


def test_load_after_wait_is_clean() -> None:
    result = run(LOADED % "wait(&full, 0);")
    assert result.findings == ()
    assert np.array_equal(result.outputs["out"][:256], A.ravel()[255::-1])
    total = result.total
    assert (total.bulk_load_requests, total.bulk_load_bytes, total.bulk_load_sectors) == (1, 1024, 32)


def test_load_without_wait_reads_what_was_there_before() -> None:
    before = "for (int i = t; i < 1024; i += 64) tile[i] = 7;\n__syncthreads();\n"
    result = run(before + LOADED.strip("\n") % "FENCE" + "\nwait(&full, 0);")
    finding = only(result, FindingKind.RACE, 4)
    assert f"copy of line {FIRST + 2}" in finding.message and "mbarrier" in finding.message
    assert finding.array.endswith("tile")
    assert (result.outputs["out"][:256] == 7).all()


@pytest.mark.parametrize(
    ("copied", "offset"), [("LOAD(tile, out, 1024, &full)", 3), ("LOAD(tile, out + 64, 1024, &full)", 319)]
)
def test_a_source_that_changes_while_it_is_copied_is_found(copied: str, offset: int) -> None:
    copy = f"if (t == 0) {{ expect(&full, 1024); {copied} }}\n"
    change, wait = f"if (t == 0) out[{offset}] = 5;\n", "wait(&full, 0);\n"
    finding = only(run(copy + change + wait), FindingKind.RACE, 0)
    assert "the source was written while the copy was in flight" in finding.message and finding.array == "out"
    assert run(copy + wait + change).findings == ()


@pytest.mark.parametrize("between", ["__syncthreads();", 'asm volatile("fence.proxy.async;"); __syncthreads();'])
def test_a_copy_reads_what_ordinary_stores_wrote_after_a_proxy_fence(between: str) -> None:
    """PTX ISA, "Async proxy": global memory too takes a fence between the generic and the async proxy."""
    body = f"out[t] = t;\n{between}\nif (t == 0) {{ expect(&full, 256); LOAD(tile, out, 256, &full) }}\nwait(&full, 0);"
    if "fence" in between:
        assert run(body).findings == ()
    else:
        assert "no fence.proxy.async" in only(run(body), FindingKind.RACE, 2).message


def test_one_warp_waits_and_the_other_reads() -> None:
    body = LOADED % "if (t < 32) wait(&full, 0);"
    assert FindingKind.RACE in {f.kind for f in run(body).findings}
    assert run(LOADED % "if (t < 32) wait(&full, 0); __syncthreads();").findings == ()


def test_bytes_that_never_come_are_named() -> None:
    body = "if (t == 0) { expect(&full, 1040); LOAD(tile, a, 1024, &full) }\nwait(&full, 0);"
    finding = only(run(body), FindingKind.DEADLOCK, 1)
    assert "16 of the bytes" in finding.message and "full" in finding.message
    assert "Let it expect as many bytes as its copies carry" in finding.message
    assert f"(through line {FIRST + WAITING}) waits" in finding.message
    body = "if (t == 0) { LOAD(tile, a, 1024, &full) }\nwait(&full, 0);"
    finding = only(run(body), FindingKind.DEADLOCK, 1)
    assert "lacks 1 arrival and" in finding.message and "1024 bytes that have come" in finding.message
    assert "Let a thread announce the bytes of its copies (mbarrier.arrive.expect_tx)" in finding.message


def test_mbarrier_was_never_made() -> None:
    body = "__shared__ u64 none;\nif (t == 0) { LOAD(tile, a, 1024, &none) }"
    only(run(body), FindingKind.UNINITIALISED, 1)


STORED = """
for (int i = t; i < 256; i += 64) tile[i] = i;
FENCE __syncthreads();
if (t == 0) { STORE(out, tile, 1024) COMMIT
    %s }
%s
"""


def test_store_after_waits_is_clean() -> None:
    for wait in ("WAIT(0)", "READ(0)"):
        result = run(STORED % (wait, "__syncthreads(); tile[t] = 5;"))
        assert result.findings == ()
        assert np.array_equal(result.outputs["out"][:256], np.arange(256))
        assert (result.total.bulk_store_requests, result.total.bulk_store_bytes) == (1, 1024)


def test_source_overwritten_before_it_was_read() -> None:
    result = run(STORED % ("", "__syncthreads();\ntile[t] = 5;\n__syncthreads(); if (t == 0) { READ(0) }"))
    finding = only(result, FindingKind.RACE, 5)
    assert f"bulk copy of line {FIRST + 2}" in finding.message and "wait_group.read" in finding.message
    assert (result.outputs["out"][:64] == 5).all()


def test_waiting_for_the_source_does_not_wait_for_the_target() -> None:
    body = STORED % ("READ(0) out[512] = out[3]; WAIT(0) out[513] = out[3];", "")
    result = run(body)
    assert result.findings == () and tuple(result.outputs["out"][512:514]) == (-1, 3)


def test_wait_group_leaves_the_youngest_groups() -> None:
    body = """
tile[t] = t; FENCE __syncthreads();
if (t == 0) {
    STORE(out, tile, 64) COMMIT
    STORE(out + 16, tile + 16, 64) COMMIT
    STORE(out + 32, tile + 32, 64) COMMIT
    WAIT(1) out[512] = out[0]; out[513] = out[16]; out[514] = out[32]; READ(0)
}"""
    result = run(body)
    assert result.findings == () and tuple(result.outputs["out"][512:515]) == (0, 16, -1)
    assert np.array_equal(result.outputs["out"][:48], np.arange(48))


def test_block_ends_before_its_copies() -> None:
    finding = only(run(STORED % ("", "")), FindingKind.RACE, 2)
    assert "block may end before" in finding.message and "wait_group.read" in finding.message
    finding = only(run("if (t == 0) { LOAD(tile, a, 1024, &full) }"), FindingKind.RACE, 0)
    assert "block may end before" in finding.message and "mbarrier" in finding.message
    body = "if (t == 0) { STORE(out, tile, 0) }"
    assert run(body).findings[0].kind is FindingKind.RACE  # not even committed


def test_source_that_nothing_wrote() -> None:
    body = "if (t < 32) tile[t] = t;\nFENCE __syncthreads();\nif (t == 0) { STORE(out, tile, 256) COMMIT WAIT(0) }"
    finding = only(run(body), FindingKind.UNINITIALISED, 2)
    assert finding.array.endswith("tile") and finding.index is not None and finding.index[0] * 16 >= 32 * 4


@pytest.mark.parametrize(
    ("copy", "kind", "words"),
    [
        ("LOAD(tile, a + 1, 64, &full)", FindingKind.MISALIGNED, "multiple of 16"),
        ("LOAD(tile + 2, a, 64, &full)", FindingKind.MISALIGNED, "multiple of 16"),
        ("LOAD(tile, a, 72, &full)", FindingKind.MISALIGNED, "copies 72 bytes in bulk"),
        ("LOAD(tile, a + 2040, 64, &full)", FindingKind.OUT_OF_BOUNDS, "a[32, 0]"),
        ("LOAD(tile, a + 4096, 64, &full)", FindingKind.OUT_OF_BOUNDS, "a[64, 0]"),
        ("LOAD(tile, (int*)16, 64, &full)", FindingKind.NULL_POINTER, "null pointer"),
        ("LOAD(tile + 1024, a, 4096, &full)", FindingKind.OUT_OF_BOUNDS, "writes"),
        ("TILE(tile + 4, &map, 0, 0, &full)", FindingKind.MISALIGNED, "multiple of 128"),
        ("TILE(tile, a, 0, 0, &full)", FindingKind.TRAP, "tensor map"),
        ("TILE(tile, out, 0, 0, &full)", FindingKind.TRAP, "tensor map"),
    ],
)
def test_bad_operands(copy: str, kind: FindingKind, words: str) -> None:
    end = "wait(&full, 0);" if "64" in copy else "__syncthreads();"
    finding = only(run(f"if (t == 0) {{ expect(&full, 64);\n{copy} }}\n{end}"), kind, 1)
    assert words in finding.message


def test_store_outside_and_into_an_input() -> None:
    body = "tile[t] = 1;\nFENCE __syncthreads();\nif (t == 0) { %s COMMIT WAIT(0) }"
    finding = only(run(body % "STORE(out + 1020, tile, 64)"), FindingKind.OUT_OF_BOUNDS, 2)
    assert finding.array == "out" and finding.index == (1024,)
    finding = only(run(body % "STORE(a, tile, 64)"), FindingKind.INPUT_MODIFIED, 2)
    assert finding.array == "a"


def test_coordinates_that_an_h200_refuses() -> None:
    body = "if (t == 0) { expect(&full, 1024);\nTILE(tile, &map, %d, %d, &full) }\nwait(&full, 0);"
    finding = only(run(body % (3, 0)), FindingKind.MISALIGNED, 1)
    assert "element 3" in finding.message
    assert run(body % (-4, -3)).findings == ()


def test_map_in_memory_and_wrong_number_of_dimensions() -> None:
    body = "if (t == 0) { expect(&full, 1024); TILE(tile, %s, 32, 5, &full) }\nwait(&full, 0);\nout[t] = tile[t];"
    by_value, by_address = run(body % "&map"), run(body % "copy")
    assert by_value.findings == by_address.findings == ()
    assert np.array_equal(by_value.outputs["out"], by_address.outputs["out"])
    assert np.array_equal(by_value.outputs["out"][:32], A[5, 32:])  # row 0 of a swizzled tile is as it is
    assert by_value.total.bulk_load_sectors == 8 * 4
    three = {"shape": (64, 8, 4), "strides": (256, 2048), "box": (32, 2, 2), "element_strides": (1, 1, 1)}
    assert run(body % "&map", **three).findings[0].kind is FindingKind.TRAP


def test_reductions_of_many_blocks_add_up() -> None:
    body = "tile[t] = t; FENCE __syncthreads();\nif (t == 0) { ADD(out, tile, 256) COMMIT WAIT(0) }"
    result = run(body, blocks=20)
    assert np.array_equal(result.outputs["out"][:64], 20 * np.arange(64) - 1)
    assert (result.total.bulk_reduction_requests, result.total.bulk_reduction_bytes) == (20, 5120)


MULTICAST = """
if (t == 0) expect(&full, 1024);
CLUSTER
if ((blockIdx.x & 3) == 1 && t == 0) %s
wait(&full, 0);
for (int i = t; i < 256; i += 64) out[256 * blockIdx.x + i] = tile[i];
CLUSTER
"""


@pytest.mark.parametrize("copy", ["{ MULTI(tile, a, 1024, &full, 15) }", "{ TILES(tile, &map, 0, 0, &full, 15) }"])
def test_multicast_fills_every_block_and_completes_its_mbarrier(copy: str) -> None:
    result = run(MULTICAST % copy, blocks=8, cluster=4, out=2048)
    assert result.findings == ()
    parts = result.outputs["out"].reshape(8, 256)
    assert np.array_equal(parts[0][:32], A[0, :32]) and (parts == parts[0]).all()


def test_multicast_to_some_blocks_leaves_the_others_waiting() -> None:
    result = run(MULTICAST % "{ MULTI(tile, a, 1024, &full, 7) }", blocks=4, cluster=4)
    stuck = [f for f in result.findings if f.kind is FindingKind.DEADLOCK]
    assert any(f.block == (3, 0, 0) and "1024 of the bytes" in f.message for f in stuck)


def test_copy_to_a_peer() -> None:
    body = """
int rank = blockIdx.x % 2;
tile[t] = 100 * blockIdx.x + t;
if (t == 0) expect(&full, 256);
FENCE
CLUSTER
if (t == 0) SEND(peer(tile + 512, rank ^ 1), tile, 256, peer(&full, rank ^ 1))
wait(&full, 0);
out[64 * blockIdx.x + t] = tile[512 + t];
CLUSTER
"""
    result = run(body, blocks=4, cluster=2)
    assert result.findings == ()
    expected = [100 * (b ^ 1) + np.arange(64) for b in range(4)]
    assert np.array_equal(result.outputs["out"][:256], np.concatenate(expected))
    assert result.total.bulk_cluster_bytes == 4 * 256


def test_order_is_random_under_a_seed_and_results_are_not() -> None:
    seen = set()
    overlapping = """
tile[t] = t; FENCE __syncthreads();
if (t == 0) { STORE(out, tile, 64) COMMIT STORE(out, tile + 32, 64) COMMIT WAIT(0) }"""
    for seed in range(8):
        result = run(LOADED % "wait(&full, 0);", seed=seed)
        assert result.findings == () and np.array_equal(result.outputs["out"][:256], A.ravel()[255::-1])
        seen.add(int(run(overlapping, seed=seed).outputs["out"][0]))
    assert seen == {0, 32}


def modelled(body: str, **options) -> CacheTraffic:
    result = run(body, caches=H200, **options)
    assert result.findings == ()
    caches = result.launches[0].caches
    assert caches is not None
    return caches


def test_loads_ask_l2_for_their_sectors() -> None:
    only_once = "if (t == 0) { expect(&full, %d); LOAD(tile, a, %d, &full) }\nwait(&full, 0);"
    for size in (32, 1024, 4096):
        caches = modelled(only_once % (size, size))
        assert (caches.l2_read_sectors, caches.l1_load_sectors, caches.l2_write_sectors) == (size // 32, 0, 0)
        assert caches.dram_read_sectors == max(size // 32, 2)  # pairs of sectors
    again = modelled(only_once % (1024, 1024) + "\nif (t == 0) { expect(&full, 1024); LOAD(tile, a, 1024, &full) }\n"
                     "wait(&full, 1);")  # fmt: skip
    assert (again.l2_read_sectors, again.l2_read_hits, again.dram_read_sectors) == (64, 32, 32)


def test_stores_and_reductions_go_to_l2() -> None:
    body = "tile[t] = t; FENCE __syncthreads();\nif (t == 0) { %s(out, tile, 256) COMMIT WAIT(0) }"
    stored = modelled(body % "STORE")
    assert (stored.l2_write_sectors, stored.l2_read_sectors, stored.l2_atomic_sectors) == (8, 0, 0)
    added = modelled(body % "ADD", blocks=20)
    assert (added.l2_atomic_sectors, added.l2_atomic_hits, added.l2_write_sectors) == (160, 152, 0)


def test_a_box_asks_for_the_sectors_of_its_rows() -> None:
    body = "if (t == 0) { expect(&full, %d); TILE(tile, &map, %d, 30, &full) }\nwait(&full, 0);"
    # Rows of 128 bytes, of which 2 are in the tensor; one of them begins 16 bytes before its end.
    assert modelled(body % (1024, 0)).l2_read_sectors == 2 * 4
    assert modelled(body % (1024, 60)).l2_read_sectors == 2
    # Rows that follow one another: each shares its sector with the next.
    shape = {"shape": (4, 64), "strides": (16,), "box": (4, 8), "swizzle": 0}
    assert modelled("if (t == 0) { expect(&full, 128); TILE(tile, &map, 0, 8, &full) }\nwait(&full, 0);",
                    **shape).l2_read_sectors == 4  # fmt: skip


def test_a_multicast_reads_once() -> None:
    caches = modelled(MULTICAST % "{ MULTI(tile, a, 1024, &full, 15) }", blocks=4, cluster=4)
    assert caches.l2_read_sectors == 32
    assert caches.l2_write_sectors == 4 * 32


HANDED_BACK = """
__shared__ u64 empty;
if (t == 0) init(&empty, %d);
for (int i = t; i < 128; i += 64) tile[i] = i;
__syncthreads();
if (t < 32) {
    %s
} else {
    wait(&empty, 0);
    tile[t] = 5;
}
"""
ARRIVE = 'asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(&empty)) : "memory");'


@pytest.mark.parametrize(
    ("arrivals", "body"),
    [
        (32, f"out[t] = tile[32 + t]; {ARRIVE}"),
        (32, f"out[t] = tile[32 + t]; if (t % 2) {{ {ARRIVE} }} else {{ {ARRIVE} }}"),
        (1, f"if (t == 3) {{ out[t] = tile[40]; {ARRIVE} }}"),
        (1, f"out[t] = tile[64 + t]; if (t == 0) {{ {ARRIVE} }}"),
        (1, f"int any = __any_sync(~0u, tile[32 + t] == 7); if (t == 0) {{ out[0] = any; {ARRIVE} }}"),
        (1, f"out[t] = tile[32 + t]; __syncwarp(); out[t] += tile[96 + t]; if (t == 9) {{ {ARRIVE} }}"),
        (1, f"if (t == 0) {{ out[0] = tile[32 + t]; {ARRIVE} }} __syncwarp(); out[t] = tile[64 + t];"),
    ],
)
def test_arrivals_that_speak_for_all_who_read(arrivals: int, body: str) -> None:
    for seed in (None, 1, 2):
        assert run(HANDED_BACK % (arrivals, body), seed=seed).findings == ()


@pytest.mark.parametrize(
    "body",
    [
        f"out[t] = tile[32 + t]; if (t == 0) {{ {ARRIVE} }}",
        f"out[t] = tile[32]; if (t == 0) {{ {ARRIVE} }}",
        f"if (t > 15) out[t] = tile[32 + t]; if (t == 0) {{ {ARRIVE} }}",
        f"__syncwarp(); if (t == 1) out[t] = tile[40]; if (t == 0) {{ {ARRIVE} }}",
        f"out[t] = ((char*)tile)[128 + t]; if (t == 0) {{ {ARRIVE} }}",
    ],
)
def test_arrival_that_speaks_for_itself_alone(body: str) -> None:
    for seed in (None, 1, 2):
        (found,) = run(HANDED_BACK % (1, body), seed=seed).findings
        assert found.kind is FindingKind.RACE and found.line == FIRST + 8
        assert f"The arrival of line {FIRST + 5} at an mbarrier speaks for its own thread alone" in found.message
