"""The layer of experts of experts.cu as PTX: its sizes, its memory, its launch, and what must cross a link."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from systems.peer.kernels import INCLUDE, PeerError
from warplab.plan.capture.nvrtc import Module, compile_cpp

SOURCE = Path(__file__).resolve().parent / "experts.cu"
NAME = "experts_kernel"
THREADS, ROWS, MIDDLE, DOWN, TOKENS = 256, 16, 64, 128, 8  # as in the source
MOST_EXPERTS, MOST_RANKS = 512, 8  # experts of one rank
MULTIPLE = 16  # of widths: the depth of one mma
_BFLOAT16 = 2  # bytes
_ALIGN = 32  # bytes: a sector

# As `Sizes` in the source.
SIZES = np.dtype([(name, "u4") for name in ("ranks", "tokens", "choices", "experts", "width", "hidden")])


@dataclass(frozen=True)
class Sizes:
    """A layer: tokens of each rank, experts of all ranks together, each token's choices among them.

    Raises PeerError for sizes that the kernel cannot do.
    """

    ranks: int
    tokens: int
    choices: int
    experts: int
    width: int
    hidden: int

    def __post_init__(self) -> None:
        if not 2 <= self.ranks <= MOST_RANKS:
            raise PeerError(f"{self.ranks} ranks: the layer is for 2 to {MOST_RANKS}.")
        if self.experts % self.ranks or not 1 <= self.own <= MOST_EXPERTS:
            most = self.ranks * MOST_EXPERTS
            raise PeerError(f"{self.experts} experts: {self.ranks} ranks take a multiple of {self.ranks} up to {most}.")
        if self.tokens < 1:
            raise PeerError(f"{self.tokens} tokens per rank: the layer needs at least one.")
        if not 1 <= self.choices <= self.experts:
            raise PeerError(f"{self.choices} choices: a token takes 1 to {self.experts}, as there are experts.")
        for name, value in (("width", self.width), ("hidden", self.hidden)):
            if value < MULTIPLE or value % MULTIPLE:
                raise PeerError(f"{name} is {value}: take a multiple of {MULTIPLE}.")

    @property
    def own(self) -> int:
        """Experts of a rank."""
        return self.experts // self.ranks

    @property
    def tiles(self) -> int:
        """Tiles of ROWS rows that a rank has at most, whatever the routes, if a token's choices differ."""
        return self.own + self.ranks * self.tokens * min(self.choices, self.own) // ROWS

    @property
    def groups(self) -> int:
        """Groups of TOKENS tokens, each of which has one flag."""
        return -(-self.tokens // TOKENS)

    @property
    def memory(self) -> int:
        """Bytes of a rank's memory that other ranks write to: rows, sums, flags. Zeros before the first call."""
        nbytes = 2 * self.ranks * self.tokens * self.width * _BFLOAT16 + 2 * self.ranks * self.groups * 4
        return -(-nbytes // _ALIGN) * _ALIGN

    @property
    def scratch(self) -> dict[str, tuple[str, int]]:
        """A rank's own arrays by the kernel's names: dtype and elements. `flags` is zeros before the first call."""
        rows = self.ranks * self.tokens
        slices = -(-self.hidden // MIDDLE) + -(-self.width // DOWN)
        return {
            "list": ("uint32", self.own * rows),
            "place": ("uint32", rows * self.choices),
            "count": ("uint32", self.own),
            "middle": ("uint16", self.tiles * ROWS * self.hidden),
            "made": ("float32", self.tiles * ROWS * self.width),
            "flags": ("uint32", self.own + self.tiles * slices),
        }

    def numbers(self) -> np.ndarray:
        """The kernel's first parameter, a structure."""
        return np.array((self.ranks, self.tokens, self.choices, self.experts, self.width, self.hidden), SIZES)

    def crossing(self, chosen: np.ndarray) -> int:
        """Bytes that must cross links for `chosen` [ranks, tokens, choices], flags not counted.

        Each token's row goes once to each other rank that has an expert of it, and one sum comes back.
        """
        ranks = chosen // self.own
        pairs = ((home, peer) for home in range(self.ranks) for peer in range(self.ranks) if peer != home)
        rows = sum(int((ranks[home] == peer).any(axis=1).sum()) for home, peer in pairs)
        return 2 * rows * self.width * _BFLOAT16

    def crossing_by_choice(self, chosen: np.ndarray) -> int:
        """The same if each choice's row crosses by itself."""
        away = chosen // self.own != np.arange(self.ranks)[:, None, None]
        return 2 * int(away.sum()) * self.width * _BFLOAT16

    def flag_bytes(self) -> int:
        """Bytes of flags that cross: two per group of tokens and ordered pair of ranks."""
        return 2 * self.ranks * (self.ranks - 1) * self.groups * 4


@cache
def compiled(architecture: str) -> Module:
    """The kernel as PTX for an architecture, such as sm_90a."""
    return compile_cpp(SOURCE.read_text("utf-8"), SOURCE.name, INCLUDE, (), architecture)
