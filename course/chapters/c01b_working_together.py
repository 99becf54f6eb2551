"""Chapter 01b: pictures of a warp's lanes, a kernel without its fences, and what each way to work together costs."""

from __future__ import annotations

import numpy as np
from IPython.display import Markdown
from matplotlib.figure import Figure

from course.figures.steps import lane_rows
from course.kernel_cell import KernelCell, kernel_cell
from course.lesson import table
from course.measured import Measured

DISTANCES = (16, 8, 4, 2, 1)


def figure_of_shuffles(held: np.ndarray) -> Figure:
    """What the 32 lanes hold at first and after each shuffle, [6, 32]; lanes that are still needed are marked."""
    names = ["at first", *(f"distance {distance}" for distance in DISTANCES)]
    needed = {name: [lane < max(32 >> step, 1) for lane in range(32)] for step, name in enumerate(names)}
    return lane_rows(
        dict(zip(names, held, strict=True)),
        marked=needed,
        title="A sum by shuffles: five steps, no shared memory, no barrier",
        subtitle="blue: lanes whose value is still needed",
    )


def figure_of_votes(x: np.ndarray, places: np.ndarray) -> Figure:
    """The numbers of 32 lanes, which are above 5, and the place of each of those; a place of -1 is none."""
    wanted = [value > 5 for value in x]
    return lane_rows(
        {
            "x": list(x),
            "wanted": ["yes" if yes else "" for yes in wanted],
            "place": [place if place >= 0 else "" for place in places],
        },
        marked={name: wanted for name in ("x", "wanted", "place")},
        title="A vote: which numbers are above 5, and how many before each?",
        subtitle="with these places the chosen numbers could be written side by side",
    )


def without_fences(cell: KernelCell) -> KernelCell:
    """The cell's kernel with every line taken out that has a fence in it."""
    lines = cell.path.read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if "threadfence" not in line)
    return kernel_cell(cell.path.stem, text, cell.path.parent / "bare")


def table_of_atomics(measured: Measured) -> Markdown:
    """The rates of atomics to one place and to places of their own, in shared and in global memory, on an H200."""
    rows = []
    for place in ("a word each", "one word"):
        shared = measured.value("shared atomics", "rate", variant=place)
        everywhere = measured.value("global atomics", "rate", variant=place)
        rows.append((place, f"{shared:.0f} per cycle", f"{everywhere / 1e9:.3g} billion per second"))
    return table(["all threads add to", "in shared memory, one SM", "in global memory, the whole GPU"], rows)


def table_of_all(measured: Measured) -> Markdown:
    """Each way in which threads work together: its purpose, its scope, its cost and its usual mistake."""
    shared = measured.value("shared memory", "latency", shape=(1,))
    memory, shuffle = measured.value("hbm", "latency"), measured.value("shfl.b32", "latency")
    rows = [
        ("guard `if i < n`", "sizes that are no multiple of the block", "a thread",
         "idle lanes in one warp of the grid", "*out of bounds*"),
        ("registers", "a thread's own values", "a thread", "nothing", ""),
        ("shared memory", "data that a block shares", "a block",
         f"{shared:.0f} cycles to read", "*uninitialised read*, *race*"),
        ("global memory", "arrays", "the grid", f"{memory:.0f} cycles to read, in the memory chips", "*out of bounds*"),
        ("barrier `syncthreads`", "other threads read after a write", "all threads of a block",
         "waiting for the slowest warp", "*race* without it, *divergent barrier* in a branch"),
        ("shuffle, vote", "exchange registers", "the lanes in the mask",
         f"{shuffle:.0f} cycles per shuffle", "*divergent barrier*"),
        ("atomic", "many add to one place", "any thread", "turns, at the same place", "*race* without it"),
        ("fence", "the order of a thread's writes, for others", "the thread that calls it",
         "waiting for its own writes", "*race*: missing fence"),
        ("end of the launch", "all blocks have ended", "the grid",
         "another launch", "*endless kernel*, if a block waits instead"),
    ]  # fmt: skip
    return table(["what", "purpose", "scope", "cost", "the mistake, as the emulator calls it"], rows)
