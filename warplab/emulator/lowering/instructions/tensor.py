"""Matrices and products of a warp or a warpgroup, on tensor cores."""

from __future__ import annotations

from warplab.emulator.lowering import tensor, wgmma, wmma
from warplab.emulator.lowering.rows import Row
from warplab.emulator.program import Work

TITLE = "Tensor cores"
_MMA = {
    **dict.fromkeys(("m16n8k16", "m16n8k32", "m16n8k64", "m16n8k128", "m16n8k256"), 80),
    **dict.fromkeys(("bf16", "tf32", "f64", "and", "sp", "sp__ordered_metadata"), 80),
    **dict.fromkeys(("e4m3", "e5m2"), 89),
    **dict.fromkeys(("e2m1", "e2m3", "e3m2", "kind__mxf8f6f4", "kind__mxf4", "kind__mxf4nvf4"), 120),
    "kind__f8f6f4": 100,
    "sp__ordered_metadata.kind__f8f6f4": 120,
}
_NARROW, _SIX = "mma.sync.aligned.kind", "{.e4m3,.e5m2,.e2m3,.e3m2,.e2m1}"
_BYTES = ".m16n8k32.row.col.f32" + _SIX + _SIX + ".f32"
_NIBBLES = ".m16n8k64.row.col.f32.e2m1.e2m1.f32"
_WITH_SCALES = "4f32 4b32 2b32 4f32 b32 2b16 b32 2b16"
_THIN_NIBBLES = ".m16n8k128.row.col.f32.e2m1.e2m1.f32"
_THIN, _THIN_SCALED = "mma.sp::ordered_metadata.sync.aligned.kind", "4f32 4b32 4b32 4f32 b32 0 b32 2b16 b32 2b16"
_SPARSE = "mma{.sp,.sp::ordered_metadata}.sync.aligned"

ROWS = (
    Row(
        (
            ("mma.sync.aligned.m16n8k16.row.col.f32{.f16.f16,.bf16.bf16}.f32", "4f32 4b32 2b32 4f32"),
            ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "2b32 4b32 2b32 2b32"),
            ("mma.sync.aligned.m16n8k8.row.col.f32{.f16.f16,.bf16.bf16}.f32", "4f32 2b32 1b32 4f32"),
            ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "4f32 4b32 2b32 4f32"),
            ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "2f64 1f64 1f64 2f64"),
            ("mma.sync.aligned.m16n8k32.row.col.s32{.s8,.u8}{.s8,.u8}.s32", "4s32 4b32 2b32 4s32"),
            ("mma.sync.aligned.m8n8k32.row.col{,.satfinite}.s32{.s4,.u4}{.s4,.u4}.s32", "2s32 1b32 1b32 2s32"),
            ("mma.sync.aligned.m16n8k32.row.col{,.satfinite}.s32{.s4,.u4}{.s4,.u4}.s32", "4s32 2b32 1b32 4s32"),
            ("mma.sync.aligned.m16n8k64.row.col{,.satfinite}.s32{.s4,.u4}{.s4,.u4}.s32", "4s32 4b32 2b32 4s32"),
            ("mma.sync.aligned.m8n8k16.row.col{,.satfinite}.s32{.s8,.u8}{.s8,.u8}.s32", "2s32 1b32 1b32 2s32"),
            ("mma.sync.aligned.m16n8k16.row.col{,.satfinite}.s32{.s8,.u8}{.s8,.u8}.s32", "4s32 2b32 1b32 4s32"),
            ("mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32{.and,.xor}.popc", "2s32 1b32 1b32 2s32"),
            ("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32{.and,.xor}.popc", "4s32 2b32 1b32 4s32"),
            ("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32{.and,.xor}.popc", "4s32 4b32 2b32 4s32"),
            (_SPARSE + ".m16n8k16.row.col.f32{.f16.f16,.bf16.bf16}.f32", "4f32 2b32 2b32 4f32 b32 3"),
            (_SPARSE + ".m16n8k32.row.col.f32{.f16.f16,.bf16.bf16}.f32", "4f32 4b32 4b32 4f32 b32 1"),
            (_SPARSE + ".m16n8k16.row.col.f16.f16.f16.f16", "2b32 2b32 2b32 2b32 b32 3"),
            (_SPARSE + ".m16n8k32.row.col.f16.f16.f16.f16", "2b32 4b32 4b32 2b32 b32 1"),
            (_SPARSE + ".m16n8k8.row.col.f32.tf32.tf32.f32", "4f32 2b32 2b32 4f32 b32 3"),
            (_SPARSE + ".m16n8k16.row.col.f32.tf32.tf32.f32", "4f32 4b32 4b32 4f32 b32 1"),
            (_SPARSE + ".m16n8k32.row.col{,.satfinite}.s32{.s8,.u8}{.s8,.u8}.s32", "4s32 2b32 2b32 4s32 b32 1"),
            (_SPARSE + ".m16n8k64.row.col{,.satfinite}.s32{.s8,.u8}{.s8,.u8}.s32", "4s32 4b32 4b32 4s32 b32 0"),
            (_SPARSE + ".m16n8k64.row.col{,.satfinite}.s32{.s4,.u4}{.s4,.u4}.s32", "4s32 2b32 2b32 4s32 b32 1"),
            (_SPARSE + ".m16n8k128.row.col{,.satfinite}.s32{.s4,.u4}{.s4,.u4}.s32", "4s32 4b32 4b32 4s32 b32 0"),
            ("mma.sync.aligned.m16n8k32.row.col.f32{.e4m3,.e5m2}{.e4m3,.e5m2}.f32", "4f32 4b32 2b32 4f32"),
            (_NARROW + "::f8f6f4.m16n8k32.row.col.f32" + _SIX + _SIX + ".f32", "4f32 4b32 2b32 4f32"),
            (_NARROW + "::f8f6f4.m16n8k32.row.col.f16" + _SIX + _SIX + ".f16", "2b32 4b32 2b32 2b32"),
            (_NARROW + "::mxf8f6f4.block_scale{,.scale_vec::1X}" + _BYTES + ".ue8m0", _WITH_SCALES),
            (_NARROW + "::mxf4.block_scale{,.scale_vec::2X}" + _NIBBLES + ".ue8m0", _WITH_SCALES),
            (_NARROW + "::mxf4nvf4.block_scale.scale_vec::2X" + _NIBBLES + ".ue8m0", _WITH_SCALES),
            (_NARROW + "::mxf4nvf4.block_scale.scale_vec::4X" + _NIBBLES + ".ue4m3", _WITH_SCALES),
            (_THIN + "::f8f6f4.m16n8k64.row.col.f32" + _SIX + _SIX + ".f32", "4f32 4b32 4b32 4f32 b32 0"),
            (_THIN + "::mxf8f6f4.block_scale.m16n8k64.row.col.f32" + _SIX + _SIX + ".f32.ue8m0", _THIN_SCALED),
            (_THIN + "::mxf4.block_scale.scale_vec::2X" + _THIN_NIBBLES + ".ue8m0", _THIN_SCALED),
            (_THIN + "::mxf4nvf4.block_scale.scale_vec::2X" + _THIN_NIBBLES + ".ue8m0", _THIN_SCALED),
            (_THIN + "::mxf4nvf4.block_scale.scale_vec::4X" + _THIN_NIBBLES + ".ue4m3", _THIN_SCALED),
        ),
        tensor.matrix_multiply,
        Work.TENSOR,
        since=_MMA,
        refused=((_SPARSE + ".m16n8k64.row.col.f32{.e4m3,.e5m2}{.e4m3,.e5m2}.f32", "4f32 4b32 4b32 4f32 b32 0"),),
        tested="tests/emulator/tensor/test_tensor.py",
    ),
    Row(
        (
            ("ldmatrix.sync.aligned.m8n8.x4{,.trans}.shared.b16", "4b32 []"),
            ("ldmatrix.sync.aligned.m16n16.x2.trans.shared{.b8,.b8x16.b6x16_p32,.b8x16.b4x16_p64}", "4b32 []"),
            ("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16{.b6x16_p32,.b4x16_p64}", "4b32 []"),
        ),
        tensor.load_matrices,
        Work.MEMORY,
        since={"m16n16": 100, "m8n16": 100},
        tested="tests/emulator/tensor/test_tensor.py",
    ),
    Row(
        (
            ("stmatrix.sync.aligned.m8n8.x4{,.trans}.shared.b16", "[] 4b32"),
            ("stmatrix.sync.aligned.m16n8.x4.trans.shared.b8", "[] 4b32"),
        ),
        tensor.store_matrices,
        Work.MEMORY,
        since={"": 90, "m16n8": 100},
        writes=False,
        tested="tests/emulator/tensor/test_tensor.py",
    ),
    Row(
        (("movmatrix.sync.aligned.m8n8.trans.b16", "b32 b32"),),
        tensor.transpose_fragment,
        Work.EXCHANGE,
        tested="tests/emulator/tensor/test_tensor.py",
    ),
    Row(
        (
            ("wmma.load{.a,.b}.sync.aligned{.row,.col}{.m16n16k16,.m8n32k16,.m32n8k16}{,.shared}.f16", "8b32 [] u32"),
            ("wmma.load{.a,.b}.sync.aligned{.row,.col}.m16n16k16{.bf16}", "4b32 [] u32"),
            ("wmma.load{.a,.b}.sync.aligned{.row,.col}.m16n16k16{.s8,.u8}", "2b32 [] u32"),
            ("wmma.load{.a,.b}.sync.aligned{.row,.col}.m16n16k8.tf32", "4b32 [] u32"),
            ("wmma.load{.a,.b}.sync.aligned{.row,.col}.m8n8k4.f64", "1f64 [] u32"),
            ("wmma.load.a.sync.aligned.row.m8n8k32{.s4,.u4}", "1b32 [] u32"),
            ("wmma.load.b.sync.aligned.col.m8n8k32{.s4,.u4}", "1b32 [] u32"),
            ("wmma.load.a.sync.aligned.row.m8n8k128.b1", "1b32 [] u32"),
            ("wmma.load.b.sync.aligned.col.m8n8k128.b1", "1b32 [] u32"),
            ("wmma.load.c.sync.aligned{.row,.col}{.m16n16k16,.m8n32k16,.m32n8k16}{.f32,.s32}", "8b32 [] u32"),
        ),
        wmma.load,
        Work.MEMORY,
        since={"bf16": 80, "tf32": 80, "f64": 80},
        name_parts=2,
        tested="tests/emulator/tensor/test_wmma.py",
    ),
    Row(
        (("wmma.store.d.sync.aligned{.row,.col}{.m16n16k16,.m8n32k16,.m32n8k16}{.f32,.s32}", "[] 8b32 u32"),),
        wmma.store,
        Work.MEMORY,
        stores=True,
        writes=False,
        name_parts=2,
        tested="tests/emulator/tensor/test_wmma.py",
    ),
    Row(
        (
            ("wmma.mma.sync.aligned.row.col.m8n8k32{,.satfinite}.s32{.s4.s4,.u4.u4}.s32", "2b32 1b32 1b32 2b32"),
            ("wmma.mma{.and,.xor}.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32", "2b32 1b32 1b32 2b32"),
            (
                "wmma.mma.sync.aligned{.row,.col}{.row,.col}{.m16n16k16,.m8n32k16,.m32n8k16}.f32.f32",
                "8b32 8b32 8b32 8b32",
            ),
            ("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16", "4b32 8b32 8b32 4b32"),
            ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32", "8b32 4b32 4b32 8b32"),
            ("wmma.mma.sync.aligned.row.col.m16n16k16{,.satfinite}.s32{.s8.s8,.u8.u8}.s32", "8b32 2b32 2b32 8b32"),
            ("wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32", "8b32 4b32 4b32 8b32"),
            ("wmma.mma.sync.aligned.row.col.m8n8k4.f64.f64.f64.f64", "2f64 1f64 1f64 2f64"),
        ),
        wmma.multiply,
        Work.TENSOR,
        since={"bf16": 80, "tf32": 80, "f64": 80, "and": 80},
        name_parts=2,
        tested="tests/emulator/tensor/test_wmma.py",
    ),
    Row(
        (("wgmma{.fence,.commit_group}.sync.aligned", ""), ("wgmma.wait_group.sync.aligned", "0")),
        wgmma.order,
        Work.CONTROL,
        since={"": 90},
        writes=False,
        name_parts=2,
        tested="tests/emulator/tensor/test_wgmma.py",
    ),
    Row(
        (
            ("wgmma.mma_async.sync.aligned{.m64n8k16,.m64n256k16}.f32{.f16.f16,.bf16.bf16}", "WD b64 b64 pred 1 1 0 0"),
            ("wgmma.mma_async.sync.aligned.m64n128k16.f16.f16.f16", "WD 4b32 b64 pred 1 -1 1"),
            ("wgmma.mma_async.sync.aligned.m64n96k8.f32.tf32.tf32", "WD b64 b64 pred 1 1"),
            ("wgmma.mma_async.sync.aligned.m64n64k32{.f32,.f16}{.e4m3,.e5m2}{.e4m3,.e5m2}", "WD 4b32 b64 pred 1 1"),
            ("wgmma.mma_async.sync.aligned.m64n240k32{,.satfinite}.s32{.s8,.u8}{.s8,.u8}", "WD b64 b64 pred"),
            ("wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc", "WD b64 b64 pred"),
        ),
        wgmma.product,
        Work.TENSOR,
        since={"": 90},
        refused=(("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16", "WD b64 b64 b32 0 pred 1 1 0 0"),),
        writes=False,  # its sums go on from the ones before
        name_parts=2,
        tested="tests/emulator/tensor/warpgroup.py",
    ),
)
