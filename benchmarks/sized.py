"""The cases of sized_kernels.py: what each is called with, as plans with inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from corpus.emulator import draws
from corpus.emulator.draws import Draw
from corpus.emulator.entry import Subject, read, scalar, update, write
from corpus.emulator.plans import assemble_file
from warplab.plan.model import Plan

FILE = Path(__file__).with_name("sized_kernels.py")
MI = 1 << 20


@dataclass(frozen=True)
class Sized(Subject):
    """A case; `name` is the function and what is special about its arguments."""

    inputs: dict[str, Draw] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The file with the kernels."""
        return FILE


def _case(function: str, special: str, arguments: Sequence, **inputs: Draw) -> Sized:
    name = f"{function}/{special}" if special else function
    return Sized(name, FILE.name, function, tuple(arguments), inputs)


def _strided(function: str, stride: int, n: int) -> Sized:
    long, short = ("a", "out") if function == "read_strided" else ("out", "a")
    sizes = {long: n * stride, short: n}
    arrays = (read("a", "float32", sizes["a"]), write("out", "float32", sizes["out"]))
    return _case(function, f"stride_{stride}", (*arrays, scalar("stride", stride)))


def _loop(function: str, n: int, dtype: str = "float32", blocks: int = 1056, draw: Draw | None = None) -> Sized:
    inputs = {"x": draw} if draw else {}
    return _case(function, f"{blocks}_blocks", (update("x", dtype, 256 * blocks), scalar("n", n)), **inputs)


def _reread(kib: int) -> Sized:
    floats = kib * 256
    arrays = read("a", "float32", 132 * floats), write("out", "float32", 132 * 256)
    return _case("reread_own", f"{kib}_kib", (*arrays, scalar("span", floats), scalar("times", 4)))


def _sweep(mib: int) -> Sized:
    arrays = read("a", "float32", mib * MI // 4), write("out", "float32", 264 * 256)
    return _case("reread_all", f"{mib}_mib", (*arrays, scalar("times", 3)))


def _square(function: str, n: int) -> Sized:
    names = ("a", "b") if function.startswith("product") else ("a",)
    output = "c" if len(names) == 2 else "out"
    return _case(function, str(n), (*(read(name, "float32", n, n) for name in names), write(output, "float32", n, n)))


def _cycle(generator: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """One cycle through all places."""
    order = generator.permutation(shape[0])
    following = np.empty(shape[0], dtype)
    following[order] = np.roll(order, -1)
    return following


SIZED: tuple[Sized, ...] = (
    _case("copy", "1_mi", (read("a", "float32", MI), write("out", "float32", MI))),
    _case("copy", "8_mi", (read("a", "float32", 8 * MI), write("out", "float32", 8 * MI))),
    _case("copy_wide", "16_mi", (read("a", "float32", 16 * MI), write("out", "float32", 16 * MI))),
    _case("fill", "8_mi", (write("out", "float32", 8 * MI),)),
    *(_strided("read_strided", stride, MI) for stride in (2, 4, 8, 16, 32)),
    *(_strided("write_strided", stride, MI) for stride in (2, 8, 32)),
    *(
        _case(
            "gather",
            name,
            (read("a", "float32", 4 * MI), read("index", "int32", MI), write("out", "float32", MI)),
            index=draws.integers(0, top),
        )
        for name, top in (("of_16_kib", 4096), ("of_1_mib", MI // 4), ("of_16_mib", 4 * MI))
    ),
    *(_reread(kib) for kib in (16, 64, 128, 192, 224, 320)),
    *(_sweep(mib) for mib in (12, 24, 36, 48, 96)),
    _case("row_sums", "16384x64", (read("a", "float32", 16384, 64), write("out", "float32", 16384))),
    _case("row_sums", "16384x256", (read("a", "float32", 16384, 256), write("out", "float32", 16384))),
    _square("stencil", 2048),
    _square("transpose", 2048),
    *(_square(function, n) for function in ("product", "product_tiled") for n in (256, 512)),
    *(
        _case("histogram", f"{bins}_bins", (read("a", "uint32", MI), update("counts", "uint32", bins)))
        for bins in (16, 4096, MI)
    ),
    _case("reduce", "8_mi", (read("a", "float32", 8 * MI), write("out", "float32", 264))),
    _loop("multiply_adds", 400),
    _loop("multiply_adds", 1200, blocks=132),
    _loop("double_multiply_adds", 200, "float64"),
    _loop("integer_mixes", 300, "uint32", draw=draws.bits),
    _loop("special_functions", 100),
    _loop("divergent", 100),
    _case("chain", "one_warp", (read("following", "int32", MI), write("out", "int32", 32), scalar("steps", 200)),
          following=_cycle),
    _case("chain", "many_warps", (read("following", "int32", MI), write("out", "int32", 1 << 17), scalar("steps", 20)),
          following=_cycle),
    *(
        _case(
            "bank_conflicts",
            f"stride_{s}",
            (update("x", "float32", 132 * 1024), scalar("n", 100), scalar("stride", s)),
        )
        for s in (1, 2, 8, 32)
    ),
    _case("tensor", "mma", (read("a", "uint32", 192), write("out", "float32", 528 * 128), scalar("n", 100)),
          a=draws.packed_halves),
)  # fmt: skip


def plans(architecture: str, cases: Sequence[Sized] = SIZED) -> dict[str, Plan]:
    """A plan with cubins for each case, by name."""
    return assemble_file(cases, architecture)
