"""Chapter 08: its kernels with one thing changed at a time, and what the emulator says to each."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autograder.spec.lab import CHECKOUT
from course.kernel_cell import KernelCell, kernel_cell
from course.trial import Trial, attempt
from warplab.errors import WarplabError
from warplab.figures import style

Edit = tuple[str, str]  # a piece of a cell's text, and what takes its place


class CellChanged(WarplabError):
    """A cell no longer has the line that an example changes."""

    def _render_traceback_(self) -> list[str]:  # what IPython shows: the sentence
        return [str(self)]


@dataclass(frozen=True)
class Variant:
    """A cell with edits, and what came of running it."""

    title: str
    edits: tuple[Edit, ...]
    trial: Trial

    def _repr_html_(self) -> str:
        rows = "".join(_row("-", old, style.ORANGE) + _row("+", new, style.GREEN) for old, new in self.edits)
        return f"<p><b>{html.escape(self.title)}</b></p>{rows}{self.trial._repr_html_()}"


def _row(sign: str, text: str, colour: str) -> str:
    look = f"border-left:4px solid {colour};padding-left:8px;white-space:pre-wrap;font-family:monospace"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "".join(f'<div style="{look}">{sign} {html.escape(line)}</div>' for line in lines)


def changed(cell: KernelCell, *edits: Edit) -> KernelCell:
    """The cell with edits, as a cell of its own. Raises CellChanged where the cell no longer has the text."""
    text = cell.path.read_text(encoding="utf-8")
    for old, new in edits:
        if old not in text:
            raise CellChanged(f"The cell {cell.name} no longer has {old.strip()!r}: put it back, and run it again.")
        text = text.replace(old, new)
    return kernel_cell(cell.name, text, CHECKOUT / "build" / "kernels" / "changed")


def variants(
    cell: KernelCell,
    case: dict,
    right: np.ndarray | None,
    faults: Mapping[str, tuple[Edit, ...]],
    seed: int | None = None,
) -> list[Variant]:
    """The cell with each fault by itself. `seed` draws the order of warps and copies."""
    return [
        Variant(title, edits, attempt(changed(cell, *edits), case, right, seed=seed)) for title, edits in faults.items()
    ]


def copy_case(x: np.ndarray, row: int, column: int) -> dict:
    """Arguments of `one_copy` for a box of 8 x 32 of x."""
    return {"x": x, "out": np.empty((8, 32), np.float16), "row": row, "column": column}


def box_of(x: np.ndarray, row: int, column: int, rows: int = 8, columns: int = 32) -> np.ndarray:
    """The box of x that begins at (row, column), float16: zeros outside x."""
    found = np.zeros((rows, columns), np.float16)
    part = x[row : row + rows, column : column + columns]
    found[: part.shape[0], : part.shape[1]] = part
    return found


def pieces(cell: KernelCell, x: np.ndarray, *edits: Edit) -> np.ndarray:
    """Which 16-byte piece of its row of x lies at each place of a swizzled tile: 8 rows of 4."""
    trial = attempt(changed(cell, *SWIZZLED, *edits), copy_case(x, 0, 0))
    assert trial.output is not None
    return ((trial.output[:, ::8].astype(int) - 1) % x.shape[1]) // 8


COPY_FAULTS = {
    "No thread waits": (("    ptx.mbarrier_wait(full, 0)  # all threads, for the end of phase 0\n", ""),),
    "One element too many is announced": (("expect_tx(full, BYTES)", "expect_tx(full, BYTES + 2)"),),
    "The barrier is made for two arrivals": (("mbarrier_init(full, 1)", "mbarrier_init(full, 2)"),),
    "The threads wait for the other parity": (("mbarrier_wait(full, 0)", "mbarrier_wait(full, 1)"),),
    "Row and column are exchanged": (("full, column, row)", "full, row, column)"),),
}
WHY_A_FINDING = dict(
    zip(
        COPY_FAULTS,
        (
            "Threads read the tile while the copy writes it: a race.",
            "The last bytes never arrive, so the phase never ends: a deadlock.",
            "The second arrival never comes: a deadlock.",
            "The wait passes at once, so the threads read too early: a race.",
        ),
        strict=False,  # the last one raises none
    )
)
NARROW_SWIZZLE = {"A box of 64 bytes per row, and a swizzle of 32": (("swizzle=0", "swizzle=32"),)}
SWIZZLED = (("(ROWS, COLUMNS), swizzle=0)", "(ROWS, COLUMNS), swizzle=64)"),)
LATER = (  # the tile begins 128 bytes later
    ("BYTES = 2 * ROWS * COLUMNS", "BYTES, LINES = 2 * ROWS * COLUMNS, ROWS + 2"),
    ("cuda.shared.array((ROWS, COLUMNS), types", "cuda.shared.array((LINES, COLUMNS), types"),
    ("ptx.shared_address(tile, 0), map_x", "ptx.shared_address(tile, 2 * COLUMNS), map_x"),
    ("tile[line, t]", "tile[line + 2, t]"),
)
LEFT_OUT = {
    "Without the proxy fence": (("    ptx.fence_proxy_async()\n", ""),),
    "Without the wgmma fence": (("    ptx.wgmma_fence()\n", ""),),
    "Without the commit": (("    ptx.wgmma_commit()\n", ""),),
    "Without the wait": (("    wait_for_products()\n", ""),),
}
PRODUCT_FAULTS = {
    "Two warps of four": (
        (
            "    d = product(d, of_a, of_b, 1)\n",
            "    if t < 64:\n        d = product(d, of_a, of_b, 1)\n",
        ),
    ),
    "Leading and stride exchanged": (("(tile_a, 0), 128, 256", "(tile_a, 0), 256, 128"),),
}
_TWO_GROUPS = (
    (
        "wait_for_products = ptx.wgmma_wait(0)",
        "all_but_one, wait_for_products = ptx.wgmma_wait(1), ptx.wgmma_wait(0)",
    ),
    ("    d = ZEROS\n", "    d, e = ZEROS, ZEROS\n"),
    (
        "    wait_for_products()\n",
        "    e = product(e, of_a, of_b, 1)\n    ptx.wgmma_commit()\n    all_but_one()\n    first = d[0]\n"
        "    wait_for_products()\n",
    ),
    ("] = d[0], d[1]", "] = first, e[1]"),
)
IN_FLIGHT = {
    "The first group is read, then the second": _TWO_GROUPS,
    "The second group is not waited for": (
        *_TWO_GROUPS,
        ("    first = d[0]\n    wait_for_products()\n", "    first = d[0]\n"),
    ),
}
BOTH_FAULTS = {
    "Another swizzle than the map's": (
        ("tile_a, 16, 8 * ROW, ptx.SWIZZLE_64)", "tile_a, 16, 8 * ROW, ptx.SWIZZLE_128)"),
    ),
    "A step of 8 along k instead of 16": (("2 * 16 // 16", "2 * 8 // 16"),),
    "The phase does not change": (("        phase ^= u32(1)\n", ""),),
    "No thread waits for the products": (("        wait_for_products()\n", ""),),
}
_WAIT = "            ptx.mbarrier_wait(empty + u32(8) * stage, phase ^ u32(1))\n"
_RELEASE = "            if t == 0:\n                ptx.mbarrier_arrive(empty + u32(8) * stage)\n"
_READ = "            for line in range(ROWS):\n"
_EMPTY = "mbarrier_init(empty + u32(8) * u32(s), 1)"
RING_FAULTS = {
    "The producer waits with the consumer's parity": ((_WAIT, _WAIT.replace(" ^ u32(1)", "")),),
    "The producer does not wait for empty": ((_WAIT, ""),),
    "The barrier empty is made for 32 arrivals": ((_EMPTY, _EMPTY.replace(", 1)", ", 32)")),),
}
EARLY_RELEASE = {"Released before it is read": ((_RELEASE, ""), (_READ, _RELEASE + _READ))}


def every_lane_arrives(cell: KernelCell, arrivals: int) -> KernelCell:
    """The ring whose consumer's 32 lanes all arrive at `empty`, which is made for so many arrivals."""
    released = (_RELEASE, "            ptx.mbarrier_arrive(empty + u32(8) * stage)\n")
    return changed(cell, released, (_EMPTY, _EMPTY.replace(", 1)", f", {arrivals})")))


def two_panels(cell: KernelCell, leading: int, stride: int) -> KernelCell:
    """`tile_product` with b in two panels of 16 columns, 32-byte swizzle, and this descriptor of b (bytes)."""
    load = "            ptx.load_tile_2d(tile_b, map_b, full, 0, first)\n"
    return changed(
        cell,
        ("(tile_b, 2 * OF_B, 8 * ROW, ptx.SWIZZLE_64)", f"(tile_b, {leading}, {stride}, ptx.SWIZZLE_32)"),
        ("u64(16 * ROW // 16)", "u64(16 * 32 // 16)"),
        (load, load + load.replace("tile_b, map_b, full, 0,", "tile_b + u32(1024), map_b, full, 16,")),
        ("ptx.tensor_map(b, (DEPTH, WIDTH), swizzle=64)", "ptx.tensor_map(b, (DEPTH, 16), swizzle=32)"),
    )
