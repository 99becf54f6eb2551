"""Runs a schedule over a topology: how long it takes when transfers share links."""

from systems.network.simulation.fairness import max_min
from systems.network.simulation.simulate import Simulated, simulate

__all__ = ["Simulated", "max_min", "simulate"]
