"""One access to memory, with the offsets that a test gives."""

from __future__ import annotations

import numpy as np

from tests.emulator.plans import buffer, plan_of
from warplab.emulator import execute
from warplab.plan.execution import Counters
from warplab.plan.model import Pointer, Role

PTX = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1) {{
    .reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<9>;
    .shared .align 16 .b8 tile[32768];
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd2, %rd3;
    ld.global.u32 %r2, [%rd2];
    cvt.u64.u32 %rd4, %r2;
    add.s64 %rd5, %rd1, %rd4;
    mov.u64 %rd6, tile;
    add.s64 %rd6, %rd6, %rd4;
    setp.lt.u32 %p1, %r2, 65535;
    {body}
    ret;
}}"""


def access(body: str, offsets: np.ndarray) -> Counters:
    """Counters of one access at byte offsets of 32 lanes; lanes with 65535 sit it out (%p1). Subtracts the setup's."""
    data, index = np.zeros(65536, np.uint8), offsets.astype(np.uint32)
    buffers = {"data": buffer("data", data, Role.INOUT), "index": buffer("index", index, Role.INPUT)}
    plan = plan_of(PTX.format(body=body), "k", buffers, (Pointer("data"), Pointer("index")), (1,), (32,))
    total = execute(plan, {"data": data, "index": index}, sanitize=False).total
    total.global_load_requests -= 1
    total.global_load_sectors -= 4
    return total


def patterns(size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(size)
    lane = np.arange(32)
    result = [lane * size, lane * 0 + 64, lane[::-1] * size, lane * 32, lane * 128, (lane % 4) * 256 + lane * size]
    result += [rng.integers(0, limit, 32) * size for limit in (8, 40, 300, 2000)]
    for _ in range(3):
        chosen = rng.integers(0, 500, 32) * size
        result.append(np.where(rng.random(32) < 0.5, chosen, 65535))
    result.append(np.where(lane < 20, lane * size + 32, 65535))
    rows = [lane // 16 * 640 + lane % 16 * size, lane // 16 * 8 * size + lane % 16 * size, lane // 8 * 64]
    rows += [lane // 16 * 96, lane // 8 * 32 + lane % 8 * 4 * size, 4096 - lane // 16 * 512 - lane % 16 * 3 * size]
    rows += [lane // 4 * 1024 + lane % 4 * size, lane // 10 * 128 + lane % 10 * size, (lane + lane // 8) * size]
    rows.append(lane % 16 * size)
    result += rows + [np.where(lane % 16 < 13, row, 65535) for row in rows]
    return result
