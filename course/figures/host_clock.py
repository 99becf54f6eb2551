"""What a clock on the host makes of a kernel and its rival: both have the launch in them."""

from __future__ import annotations

from matplotlib.figure import Figure

from course.figures.explore import Explorer
from warplab.figures import style

_TIMES = [2.0**power for power in range(-1, 15)]  # µs on the device


def said(device: float, launch: float, faster: float, lighter: float = 1.0) -> float:
    """How many times as fast a kernel seems.

    It takes `device` µs, its rival `faster` times as long. To each a host clock adds a launch: `launch` µs to the
    rival, and to the kernel that over `lighter`.
    """
    return (launch + device * faster) / (launch / lighter + device)


def host_clock(launch: float, faster: float, lighter: float) -> Figure:
    """That over the time on the device. Raises ValueError for what is not positive; a launch may be 0."""
    if launch < 0 or faster <= 0 or lighter <= 0:
        raise ValueError("A launch takes 0 µs or more, and ratios are above 0.")
    made, (axes,) = style.figure(9.5, 3.6)
    axes.plot(_TIMES, [said(t, launch, faster, lighter) for t in _TIMES], color=style.BLUE, linewidth=2)
    axes.axhline(faster, color=style.ORANGE, linestyle="--", linewidth=1.5)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("time on the device, µs")
    axes.set_ylabel("times as fast, says the host")
    axes.grid(True)
    small, large = (said(time, launch, faster, lighter) for time in (_TIMES[0], _TIMES[-1]))
    style.headline(
        made,
        f"A kernel {faster:g} times as fast as its rival (dashed), by a clock on the host",
        f"computed: {small:.2f} times at {_TIMES[0]:g} µs, {large:.2f} times at {_TIMES[-1]:,.0f} µs",
    )
    return made


def explore_host_clock() -> Explorer:
    """Boxes for the launch, the true ratio, and how much lighter the kernel's own launch is."""
    return Explorer(host_clock, launch=(100.0, float), faster=(1.5, float), lighter=(1.0, float))
