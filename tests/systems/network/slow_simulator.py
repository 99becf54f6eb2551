"""The simulator's rules once more, as plainly as possible: every transfer for itself, exact fractions, no symmetry."""

from __future__ import annotations

from fractions import Fraction

from systems.network.schedules import Schedule
from systems.network.schedules.model import expand
from systems.network.topology import Topology


def fair(capacity: dict[int, Fraction], uses: dict[int, list[int]]) -> dict[int, Fraction]:
    """Max-min rates: again and again the link with the least for each of its flows decides what these get."""
    rates: dict[int, Fraction] = {}
    room = dict(capacity)
    while len(rates) < len(uses):
        share = {}
        for link in room:
            sharing = [flow for flow, links in uses.items() if link in links and flow not in rates]
            if sharing:
                share[link] = room[link] / len(sharing)
        tightest = min(share, key=lambda link: share[link])
        for flow, links in uses.items():
            if tightest in links and flow not in rates:
                rates[flow] = share[tightest]
                for link in links:
                    room[link] -= share[tightest]
    return rates


def seconds(schedule: Schedule, topology: Topology, size: int) -> float:
    """Until the last transfer of a schedule without `received` is done."""
    moves = expand(schedule)
    number = range(len(moves.step))
    routes = topology.routes(moves.source, moves.destination)
    links = [[int(link) for link in row if link >= 0] for row in routes]
    wait = [sum(Fraction(float(topology.latency[link])) for link in way) for way in links]
    capacity = {link: Fraction(float(topology.bandwidth[link])) for way in links for link in way}
    amount = Fraction(size) * Fraction(schedule.chunk_share()).limit_denominator(10**6)
    ends = [(int(moves.source[i]), int(moves.destination[i])) for i in number]
    steps = {
        rank: sorted({int(moves.step[i]) for i in number if rank in ends[i]}) for rank in range(schedule.ranks)
    }  # fmt: skip
    now, done = Fraction(0), set()
    begins: dict[int, Fraction] = {}
    left: dict[int, Fraction] = {}
    while len(done) < len(ends):
        for i in number:
            here = all(steps[rank] and steps[rank][0] == moves.step[i] for rank in ends[i])
            if here and i not in begins:
                begins[i] = now + wait[i]
        for i, at in begins.items():
            if at <= now and i not in left and i not in done:
                left[i] = amount
        rates = fair(capacity, {i: links[i] for i in left})
        times = [at for at in begins.values() if at > now] + [now + left[i] / rates[i] for i in left]
        then = min(times)
        for i in list(left):
            left[i] -= rates[i] * (then - now)
            if left[i] <= 0:
                done.add(i)
                del left[i]
        now = then
        for rank, todo in steps.items():
            if todo and all(i in done for i in number if rank in ends[i] and moves.step[i] == todo[0]):
                todo.pop(0)
    return float(now)
