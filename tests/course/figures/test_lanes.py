"""The pictures' counts against the rules of the hardware, counted here in another way, and against known figures."""

from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.figures.lanes import banks_of, lanes_to_banks, lanes_to_sectors, sectors_of
from tests.emulator.one_access import access, patterns
from warplab.figures import style

SIZES = (1, 2, 4, 8, 16)


@st.composite
def accesses(draw: st.DrawFn) -> tuple[list[int | None], int]:
    size = draw(st.sampled_from(SIZES))
    slot = st.one_of(st.none(), st.integers(0, 4096))
    return [None if n is None else n * size for n in draw(st.lists(slot, min_size=32, max_size=32))], size


@given(accesses())
def test_sectors_are_the_distinct_ones(case: tuple[list[int | None], int]) -> None:
    addresses, size = case
    touched = np.array([a + byte for a in addresses if a is not None for byte in range(size)], dtype=np.int64)
    access = sectors_of(addresses, size)
    assert list(access.sectors) == np.unique(touched // 32).tolist()
    assert access.bytes_asked == np.unique(touched).size <= access.bytes_moved


@given(accesses(), st.booleans())
def test_wavefronts_serve_every_word_once(case: tuple[list[int | None], int], write: bool) -> None:
    addresses, size = case
    access = banks_of(addresses, size, write=write)
    group = 32 // max(1, size // 4)
    lanes = [n for n in range(32) if addresses[n] is not None]
    paired = any(
        all(addresses[n ^ step] in (None, addresses[n]) for n in lanes) for step in (1, 2)
    )  # docs/counters.md: such loads are served twice as many lanes at a time
    if paired and size > 4 and not write:
        group *= 2
    expected = ideal = 0
    for start in range(0, 32, group):
        words = np.unique(
            [a // 4 + w for a in addresses[start : start + group] if a is not None for w in range(max(1, size // 4))]
        ).astype(np.int64)
        expected += int(np.bincount(words % 32).max(initial=0))
        ideal += words.size > 0
    assert len(access.wavefronts) == expected
    assert access.conflicts == expected - ideal
    for wavefront in access.wavefronts:
        assert all(word % 32 == bank for bank, (word, _) in wavefront.served.items())


def shared_patterns(size: int) -> list[np.ndarray]:
    """Byte offsets of 32 lanes, and what is served in larger groups: broadcasts and pairs, whole and spoiled."""
    lane = np.arange(32)
    alike = [lane * 0 + 64, lane // 2 * size, lane // 4 * 64, lane // 8 * 16, (lane & ~2) * 16, lane % 4 * 16]
    spoiled = [np.where(lane == 7, 512, offsets) for offsets in alike]
    idle = [np.where(lane % 5 == 0, 65535, offsets) for offsets in alike]
    return [
        offsets for offsets in (*patterns(size), *alike, *spoiled, *idle) if (offsets[offsets < 65535] < 32000).all()
    ]


@pytest.mark.parametrize(("kind", "registers", "size"), [
    ("u32", "%r3", 4), ("u64", "%rd7", 8), ("v2.u32", "{%r3, %r4}", 8), ("v4.u32", "{%r3, %r4, %r5, %r6}", 16),
])  # fmt: skip
def test_the_picture_has_the_emulators_wavefronts(kind: str, registers: str, size: int) -> None:
    """The rule stands here for pictures and in emulator/counting.py for kernels: they must be one."""
    for offsets in shared_patterns(size):
        addresses = [None if offset == 65535 else int(offset) for offset in offsets]
        if any(address is not None and address % size for address in addresses):
            continue
        read = access(f"@%p1 ld.shared.{kind} {registers}, [%rd6];", offsets)
        written = access(f"@%p1 st.shared.{kind} [%rd6], {registers};", offsets)
        drawn = banks_of(addresses, size), banks_of(addresses, size, write=True)
        assert [len(a.wavefronts) for a in drawn] == [read.shared_load_wavefronts, written.shared_store_wavefronts]
        assert [a.conflicts for a in drawn] == [read.shared_load_bank_conflicts, written.shared_store_bank_conflicts]


def test_a_wide_broadcast_is_drawn_as_two_wavefronts() -> None:
    (axes,) = lanes_to_banks([64] * 32, size=16).figure.axes
    rows = {patch.get_y(): patch.get_gid() for patch in axes.patches if patch.get_gid() != "idle"}
    assert len(rows) == 2 and not any(patch.get_facecolor() == style.RED for patch in axes.patches)
    assert [text.get_text() for text in axes.texts if "wavefront" in text.get_text()] == ["wavefront 1", "wavefront 2"]


def test_figures_known_from_hardware() -> None:
    # A 32 x 32 float tile read by columns: 1,024 wavefronts and 992 conflicts on an H200; padded to 33: 32 and 0.
    columns = [banks_of([4 * (row * 32 + column) for row in range(32)]) for column in range(32)]
    assert sum(len(a.wavefronts) for a in columns) == 1024 and sum(a.conflicts for a in columns) == 992
    padded = [banks_of([4 * (row * 33 + column) for row in range(32)]) for column in range(32)]
    assert sum(len(a.wavefronts) for a in padded) == 32 and sum(a.conflicts for a in padded) == 0
    assert len(sectors_of([128 * lane for lane in range(32)]).sectors) == 32
    assert len(sectors_of([4 * lane for lane in range(32)]).sectors) == 4


def test_wide_broadcasts_are_served_in_larger_groups() -> None:
    # 16 bytes, all lanes alike: 2 wavefronts on an H200; a store, or four different addresses in turn: 4.
    alike = [0] * 32
    assert len(banks_of(alike, 16).wavefronts) == 2 and len(banks_of(alike, 8).wavefronts) == 1
    assert len(banks_of(alike, 16, write=True).wavefronts) == 4
    assert len(banks_of([16 * (lane // 2) for lane in range(32)], 16).wavefronts) == 2
    assert len(banks_of([16 * (lane % 4) for lane in range(32)], 16).wavefronts) == 4
    # The rows of ldmatrix are served one matrix at a time.
    assert len(banks_of(alike, 16, matrix=True).wavefronts) == 4


def test_the_sector_picture_fills_the_words_used() -> None:
    figure = lanes_to_sectors([4 * lane + 16 for lane in range(32)])
    (axes,) = figure.axes
    kinds = [patch.get_gid() for patch in axes.patches]
    assert kinds.count("used") == 32 and kinds.count("unused") == 5 * 8 - 32
    assert sum(kind.startswith("lane ") for kind in kinds) == 32
    assert len(axes.lines) == 32 + 2  # one a lane, and a bracket for each of two cache lines
    assert "5 sectors of 32 bytes move, 80% of their bytes are used" in figure.texts[1].get_text()


def test_each_line_ends_in_its_own_sector() -> None:
    figure = lanes_to_sectors([4 * ((lane * 7) % 32) for lane in range(32)])
    (axes,) = figure.axes
    boxes = {p.get_gid(): p for p in axes.patches if p.get_gid().startswith("sector")}
    joining = [line for line in axes.lines if len(line.get_xdata()) == 2]
    for lane, line in enumerate(joining):
        box = boxes[f"sector {4 * ((lane * 7) % 32) // 32}"]
        assert line.get_xdata()[0] == lane + 0.5
        assert box.get_x() < line.get_xdata()[1] < box.get_x() + box.get_width()


def test_idle_lanes_are_grey_and_joined_to_nothing() -> None:
    figure = lanes_to_sectors([0, *[None] * 31])
    (axes,) = figure.axes
    assert len(axes.lines) == 1 + 1
    assert "1 lanes x 4 bytes: 1 sector of" in figure.texts[1].get_text()


def test_the_bank_picture_shows_conflicts_in_red() -> None:
    figure = lanes_to_banks([8 * lane for lane in range(32)])
    (axes,) = figure.axes
    assert "2 wavefronts, 1 bank conflict;" in figure.texts[1].get_text()
    served = [patch for patch in axes.patches if patch.get_gid() != "idle"]
    assert [int(p.get_gid().split()[1]) for p in served] == [2 * lane for lane in range(32)]
    second = [p for p in served if p.get_y() == 1]
    assert {p.get_x() for p in second} == set(range(0, 32, 2))
    assert all(p.get_facecolor()[:3] == pytest.approx((0.835, 0.369, 0), abs=0.01) for p in second)
    assert style.RED == "#D55E00"


@pytest.mark.parametrize("draw", [lanes_to_sectors, lanes_to_banks])
@pytest.mark.parametrize(
    ("addresses", "size"),
    [
        ([None] * 32, 4),
        ([16 * lane for lane in range(32)], 16),
        ([4096 * lane for lane in range(32)], 8),
        ([0] * 32, 1),
    ],
)
def test_it_draws(draw, addresses: list[int | None], size: int) -> None:
    buffer = BytesIO()
    draw(addresses, size).savefig(buffer, format="png")
    assert len(buffer.getvalue()) > 5_000


@pytest.mark.parametrize(
    ("addresses", "size", "message"),
    [
        ([0] * 31, 4, "32 lanes, not 31"),
        ([0] * 32, 3, "1, 2, 4, 8 or 16 bytes"),
        ([0] * 5 + [2] + [0] * 26, 4, "lane 5 accesses 4 bytes at 2"),
        ([-4] + [0] * 31, 4, "lane 0"),
    ],
)
def test_bad_input_is_one_sentence(addresses: list[int], size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sectors_of(addresses, size)
    with pytest.raises(ValueError, match=message):
        banks_of(addresses, size)
