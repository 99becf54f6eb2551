"""Rows of experts on tiles: what padding of groups costs, and in how many waves of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from course.figures.explore import Explorer
from warplab.figures import style

SKEWS = ("even", "some favourites", "one favourite")


@dataclass(frozen=True)
class Groups:
    """`counts` rows of each expert, on tiles of `tile` rows and a width of `columns` tiles.

    Raises ValueError if there is no expert, or a count or a size is no number of rows.
    """

    counts: tuple[int, ...]
    tile: int = 128
    columns: int = 1

    def __post_init__(self) -> None:
        if not self.counts or min(self.counts) < 0 or self.tile < 1 or self.columns < 1:
            raise ValueError("there is at least one expert, and rows, tiles and columns are counted from 0 or 1")

    @property
    def rows(self) -> int:
        """Real rows: a token's."""
        return sum(self.counts)

    @property
    def tall(self) -> tuple[int, ...]:
        """Rows of tiles of each expert; none for one without rows."""
        return tuple(-(-count // self.tile) for count in self.counts)

    @property
    def on_tiles(self) -> int:
        """Rows that are multiplied if each group is padded to whole tiles."""
        return sum(self.tall) * self.tile

    @property
    def to_the_fullest(self) -> int:
        """Rows that are multiplied if each group is padded to the tiles of the fullest: a batched product."""
        return len(self.counts) * max(self.tall) * self.tile

    def waves(self, blocks: int) -> int:
        """How often `blocks` blocks that run at once make a tile each, for all experts in one launch."""
        return -(-sum(self.tall) * self.columns // blocks)

    def waves_one_by_one(self, blocks: int) -> int:
        """The same with a launch for each expert that has rows: a launch begins when the one before has ended."""
        return sum(-(-tall * self.columns // blocks) for tall in self.tall)


def routed(tokens: int, experts: int, k: int, skew: str, seed: int = 0) -> tuple[int, ...]:
    """Rows of each expert if every token chooses `k` different ones: evenly, or with favourites. Drawn, not learned.

    Raises ValueError for an unknown skew, or if there are fewer experts than choices.
    """
    if skew not in SKEWS or not 1 <= k <= experts:
        raise ValueError(f"skew is one of {', '.join(SKEWS)}, and a token chooses 1 to {experts} experts")
    draw = Random(seed)
    weights = [1.0] * experts
    if skew == "some favourites":
        weights = [draw.lognormvariate(0, 1) for _ in range(experts)]
    elif skew == "one favourite":
        weights[draw.randrange(experts)] = float(experts)
    counts = [0] * experts
    for _ in range(tokens):
        # Efraimidis and Spirakis (2006): the k largest u^(1/w) are a weighted draw without replacement
        keys = [draw.random() ** (1 / weight) for weight in weights]
        for expert in sorted(range(experts), key=keys.__getitem__)[-k:]:
            counts[expert] += 1
    return tuple(counts)


def groups(model: Groups, *, title: str = "") -> Figure:
    """A column for each expert: its rows, what is added to whole tiles, and to the tiles of the fullest."""
    made, (axes,) = style.figure(11.5, 3.9)
    fullest = max(model.tall) * model.tile
    for expert, (count, tall) in enumerate(zip(model.counts, model.tall, strict=True)):
        for name, start, height, colour in (
            ("rows", 0, count, style.GREEN),
            ("to a tile", count, tall * model.tile - count, style.ORANGE),
            ("to the fullest", tall * model.tile, fullest - tall * model.tile, style.FAINT),
        ):
            bar = axes.bar(expert, height, bottom=start, width=0.86, color=colour, linewidth=0)
            bar.patches[0].set_gid(f"{name} {expert}")
    for line in range(0, fullest + 1, model.tile):
        axes.axhline(line, color=style.PANEL, linewidth=0.8)
    axes.set_xlim(-0.6, len(model.counts) - 0.4)
    axes.set_xlabel("expert")
    axes.set_ylabel("rows")
    axes.legend(
        handles=[
            Patch(color=style.GREEN, label="rows of the expert"),
            Patch(color=style.ORANGE, label="added to whole tiles"),
            Patch(color=style.FAINT, label="added to the fullest one's"),
        ],
        loc="lower right", bbox_to_anchor=(1, 1), ncols=3, frameon=False, fontsize=style.SMALL,
    )  # fmt: skip
    rows = max(model.rows, 1)
    style.headline(
        made,
        title or f"{len(model.counts)} experts, {model.rows:,} rows on tiles of {model.tile}",
        f"computed per real row: {model.on_tiles / rows:.2f} rows on tiles, "
        f"{model.to_the_fullest / rows:.2f} in a batch (counted from the drawn routing)",
    )
    return made


def explore_groups() -> Explorer:
    """Choose tokens, experts, how unevenly they are chosen, and the height of a tile."""

    def draw(tokens: int, experts: int, choices: int, skew: str, tile: int) -> Figure:
        return groups(Groups(routed(tokens, experts, choices, skew), tile))

    return Explorer(
        draw,
        tokens=(64, [16, 64, 256, 1024, 4096]),
        experts=(32, [8, 16, 32, 64]),
        choices=(2, [1, 2, 4, 8]),
        skew=(SKEWS[1], SKEWS),
        tile=(64, [16, 64, 128, 256]),
    )


def distinct_nodes(nodes: int, experts: int, k: int, most: int = 0) -> float:
    """On how many of `nodes` nodes a token's `k` experts lie on average, if any `k` of them are as likely.

    Experts are spread evenly. With `most` a token chooses so many nodes first, and `k` of their experts (closed form:
    a node has none of k drawn without replacement with probability C(experts - share, k) / C(experts, k)).
    """
    from math import comb

    if nodes < 1 or experts % nodes or not 1 <= k <= experts:
        raise ValueError("experts are spread evenly over the nodes, and a token chooses 1 or more of them")
    among = min(most or nodes, nodes)
    share, of = experts // nodes, among * (experts // nodes)
    if k > of:
        raise ValueError(f"{among} nodes have only {of} experts")
    return among * (1 - comb(of - share, k) / comb(of, k))


def shares(counts: Sequence[int]) -> float:
    """Rows of the fullest expert over those of an average one."""
    return max(counts) * len(counts) / max(sum(counts), 1)
