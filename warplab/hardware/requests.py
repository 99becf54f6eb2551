"""What the memory system does for one request of a warp: which sectors move, which bank serves which lane when.

Global memory moves in sectors of 32 bytes. Shared memory has 32 banks of 4 bytes; a wavefront gives each bank one word,
to any number of lanes. How accesses wider than 4 bytes are grouped was seen on an H200: docs/counters.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LANES = 32
SECTOR = 32  # bytes
LINE = 128  # bytes
BANKS = 32
WORD = 4  # bytes

Addresses = Sequence[int | None]


@dataclass(frozen=True)
class SectorAccess:
    """One global-memory request of a warp."""

    lanes: tuple[tuple[int, ...], ...]  # the sectors that each active lane touches, lowest first
    sectors: tuple[int, ...]  # the distinct ones, lowest first; sector n starts at byte 32 n
    bytes_asked: int  # distinct bytes that the lanes use

    @property
    def bytes_moved(self) -> int:
        """What the memory system moves for them: whole sectors."""
        return SECTOR * len(self.sectors)


@dataclass(frozen=True)
class Wavefront:
    """What the banks serve at once: each bank one word, for all lanes that want that word."""

    served: dict[int, tuple[int, tuple[int, ...]]]  # bank -> (word, lanes)
    conflict: bool  # needed only because two words wanted one bank


@dataclass(frozen=True)
class BankAccess:
    """One shared-memory request of a warp."""

    wavefronts: tuple[Wavefront, ...]

    @property
    def conflicts(self) -> int:
        """Wavefronts that a conflict-free layout would not need."""
        return sum(wavefront.conflict for wavefront in self.wavefronts)


def sectors_of(addresses: Addresses, size: int = 4) -> SectorAccess:
    """The 32-byte sectors of one request: each lane accesses `size` bytes at its byte address, None for an idle lane.

    Raises ValueError unless there are 32 addresses, aligned to a size of 1, 2, 4, 8 or 16 bytes.
    """
    _check(addresses, size)
    lanes = tuple(
        () if address is None else tuple(range(address // SECTOR, (address + size - 1) // SECTOR + 1))
        for address in addresses
    )
    used = {byte for address in addresses if address is not None for byte in range(address, address + size)}
    return SectorAccess(lanes, tuple(sorted({sector for touched in lanes for sector in touched})), len(used))


def banks_of(addresses: Addresses, size: int = 4, *, write: bool = False, matrix: bool = False) -> BankAccess:
    """The shared-memory wavefronts of one request, from each lane's byte address in shared memory.

    Bank of a word: (address / 4) mod 32. Lanes that want the same word share it (broadcast). Accesses of 8 bytes are
    served a half-warp at a time and of 16 bytes a quarter-warp; twice as many lanes at a time for a load in which
    throughout the warp either each lane and its neighbour (lane ^ 1), or each lane and the one two further (lane ^ 2),
    ask for the same address or one of them is idle. `write`: it is a store. `matrix`: it is an ldmatrix or stmatrix,
    whose rows of 16 bytes are served eight at a time. Raises ValueError as `sectors_of`.
    """
    _check(addresses, size)
    group = LANES * WORD // max(size, WORD)
    if size > WORD and not write and not matrix and (_in_pairs(addresses, 1) or _in_pairs(addresses, 2)):
        group *= 2
    wavefronts = []
    for start in range(0, LANES, group):
        wanted: dict[int, dict[int, list[int]]] = {}  # bank -> word -> lanes
        for lane in range(start, start + group):
            address = addresses[lane]
            if address is None:
                continue
            for word in range(address // WORD, (address + size - 1) // WORD + 1):
                wanted.setdefault(word % BANKS, {}).setdefault(word, []).append(lane)
        queues = {bank: list(words.items()) for bank, words in sorted(wanted.items())}
        for turn in range(max(map(len, queues.values()), default=0)):
            served = {b: (q[turn][0], tuple(q[turn][1])) for b, q in queues.items() if turn < len(q)}
            wavefronts.append(Wavefront(served, conflict=turn > 0))
    return BankAccess(tuple(wavefronts))


def _in_pairs(addresses: Addresses, distance: int) -> bool:
    """Does every active lane want the address of the lane `distance` away, if that one is active?"""
    pairs = ((address, addresses[lane ^ distance]) for lane, address in enumerate(addresses))
    return all(mine is None or other is None or mine == other for mine, other in pairs)


def _check(addresses: Addresses, size: int) -> None:
    if len(addresses) != LANES:
        raise ValueError(
            f"a warp has {LANES} lanes, not {len(addresses)}: give one address each, None for an idle lane"
        )
    if size not in (1, 2, 4, 8, 16):
        raise ValueError(f"a lane accesses 1, 2, 4, 8 or 16 bytes at once, not {size}")
    for lane, address in enumerate(addresses):
        if address is not None and (address < 0 or address % size):
            raise ValueError(f"lane {lane} accesses {size} bytes at {address}: that is not a multiple of {size}")
