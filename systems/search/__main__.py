"""Searches the half-precision product's template for one shape, with the emulator as the judge.

    python -m systems.search 64 64 4096 --tries 20
    python -m systems.search 64 64 4096 --by words --ask "my-model --quiet" --transcript said.json

Each trial is compiled, compared with float64, and its time on an H200 estimated: modelled, not measured. With `--by
words` a program of yours proposes: it is given the question on its standard input, and what it prints is the answer.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from systems.search.by_words import Ask, ByWords, Transcript
from systems.search.emulated import Emulated
from systems.search.half_product import CHOICES, HalfChoice, Shape, guess, neighbours
from systems.search.proposers import ByChance, ByEvolution, ByGuess
from systems.search.trials import Log, Proposer, search
from warplab.errors import WarplabError
from warplab.files import write_whole
from warplab.hardware.chips import H200

WAYS = ("chance", "evolution", "guess", "words")
_ANSWER_SECONDS = 300.0


def task_of(shape: Shape) -> str:
    """What somebody who proposes in words is told."""
    m, n, k = shape
    return (
        f"A kernel multiplies float16 matrices, {m} x {k} by {k} x {n}, on an H200 of {H200.sms} SMs, with sums in "
        "float32. A block makes rows x columns outputs, depth steps of k at a time, with so many stages on their way. "
        "A block of 'warps' uses mma.sync, and has tiles filled by cp.async: four warps have a quarter of the tile "
        "each, or, with more than one of 'slices', each slice has a warp for every 32 x 32 of the tile, and the "
        "slices share the sum. A block of 'warpgroups' uses wgmma and tensor copies, with a warpgroup for each 64 "
        "rows, or for each 64 columns if it is 'turned'. 'splits' blocks, a cluster, share the sum of a tile; "
        "'together' blocks share the columns of b; 'stays' is whether blocks make tile after tile. The cost is the "
        "time in microseconds, as an emulator estimates it."
    )


def asking(command: str) -> Ask:
    """A function that asks a program. It raises WarplabError if that fails."""

    def ask(text: str) -> str:
        words = shlex.split(command)
        try:
            run = subprocess.run(words, input=text, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError, IndexError) as error:
            raise WarplabError(f"The program that was to answer, {command!r}, failed: {error}.") from None
        return run.stdout

    return ask


def proposer_of(options: argparse.Namespace, choices: list[HalfChoice], transcript: Transcript) -> Proposer[HalfChoice]:
    """The one that was asked for. Raises WarplabError for words that nobody says."""
    shape = (options.m, options.n, options.k)
    if options.by == "chance":
        return ByChance(choices, options.seed)
    if options.by == "evolution":
        near = {choice: [other for other in neighbours(choice) if other in choices] for choice in choices}
        return ByEvolution(choices, near.__getitem__, options.seed)
    if options.by == "guess":
        return ByGuess(choices, lambda choice: guess(choice, shape, H200.sms))
    if not options.ask:
        raise WarplabError("Nobody is there to be asked: name a program with --ask that answers what it is given.")
    return ByWords(choices, transcript.recording(asking(options.ask)), transcript.task)


def run(options: argparse.Namespace) -> Log[HalfChoice]:
    """Search, saying each trial. Raises WarplabError."""
    shape = (options.m, options.n, options.k)
    judge = Emulated(shape)
    kinds = (options.kind,) if options.kind else ("warps", "warpgroups")
    choices = [choice for choice in CHOICES if choice.takes(shape) and choice.kind in kinds]
    transcript = Transcript(options.ask or "nobody", task_of(shape))

    def said(choice: HalfChoice) -> float | None:
        cost = judge(choice)
        print(f"{choice.name:34} {'wrong' if cost is None else f'{cost:9.2f} us, modelled'}", flush=True)
        return cost

    log = search(proposer_of(options, choices, transcript), said, options.tries)
    if options.transcript:
        transcript.write(options.transcript)
    return log


def main() -> int:
    """Exit code 0 if a right choice was found, 1 if none was, 2 for what cannot be searched."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, words in (("m", "rows of a and c"), ("n", "columns of b and c"), ("k", "columns of a, rows of b")):
        parser.add_argument(name, type=int, help=words)
    parser.add_argument("--tries", type=int, default=20, help="at most so many")
    parser.add_argument("--by", choices=WAYS, default="evolution", help="who proposes")
    parser.add_argument("--kind", choices=("warps", "warpgroups"), help="only mma.sync, or only wgmma")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ask", help="the program that answers, for --by words")
    parser.add_argument("--transcript", type=Path, help="write what was said to this file")
    parser.add_argument("--log", type=Path, help="write all trials to this file, as JSON")
    options = parser.parse_args()
    try:
        log = run(options)
    except WarplabError as error:
        print(error, file=sys.stderr)
        return 2
    if options.log:
        write_whole(options.log, log.to_json() + "\n")
    if log.best is None:
        print("No right choice was found.")
        return 1
    print(f"\nThe best of {len(log.trials)}: {log.best.choice}, {log.best.cost:.2f} us, modelled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
