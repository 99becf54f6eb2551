"""What the interpreter's ring of pages is, and how its SMs tell each other, as the benchmark varies it."""

from __future__ import annotations

from dataclasses import dataclass

from systems.megakernel import launch


@dataclass(frozen=True)
class Ring:
    """Pages of the ring, how many may be on their way at once, and whether they are asked for ahead of inputs; whether
    vectors have flags that are looked at, or counters are released."""

    slots: int = launch.SLOTS
    in_flight: int = launch.IN_FLIGHT
    ahead: bool = True
    flags: bool = True

    def __str__(self) -> str:
        """The variant that records name."""
        way = f"ring of {self.slots}, {self.in_flight} on their way"
        return f"{way}{'' if self.ahead else ', late'}{', flags' if self.flags else ''}"
