"""The kernels that are timed must be those that are judged.

What is counted is a small case, what is timed a large one. A submission that has one kernel for each would save
bytes in the one and time in the other, or, on a machine without a GPU, save bytes in the counted case only. So the
timed case must launch the kernels of the profile case, and these must run in a correctness case as well. Kernels for
edges alone, which neither case needs, are free.

Kernels are compared by their PTX, all of it, as one process has captured it: two compilations of one function for the
same types are equal there, other constants or options make another kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autograder.records.text import clean
from warplab.plan.model import Kernel, Plan

_Identity = tuple[str, tuple[tuple[str, str], ...]]


def other_kernels(profile: Plan, timing: Plan, correctness: Sequence[Plan]) -> str:
    """What is wrong with the kernels of a submission, as a sentence; empty if nothing is.

    `correctness` are the plans of correctness cases that were captured with the other two; without any, that is not
    asked.
    """
    counted, timed = _launched(profile), _launched(timing)
    if counted.keys() != timed.keys():
        words = f"the timed case launches {_names(timed, counted)}, the profile case {_names(counted, timed)}"
        return f"What is timed is not what was counted: {words}. Launch the same kernels for whole tiles of every size."
    judged = set().union(*(_launched(plan) for plan in correctness))
    unjudged = {identity: name for identity, name in timed.items() if identity not in judged}
    if correctness and unjudged:
        return (
            f"What is timed was not judged: no correctness case that is shown launches {_list(unjudged.values())}. "
            "Choose kernels by whether tiles are whole, not by how large the arrays are."
        )
    return ""


def _launched(plan: Plan) -> dict[_Identity, str]:
    """The kernels that a plan launches, each with the name that the student gave it."""
    kernels = [plan.kernels[launch.kernel] for launch in plan.launches]
    return {_identity(kernel): clean(kernel.name) for kernel in kernels}


def _identity(kernel: Kernel) -> _Identity:
    return kernel.entry, tuple(sorted(kernel.ptx.items()))


def _names(launched: dict[_Identity, str], elsewhere: dict[_Identity, str]) -> str:
    """The kernels of one case that the other one lacks; names can be equal, of one template or factory."""
    own = [name for identity, name in launched.items() if identity not in elsewhere]
    variants = set(own) & set(elsewhere.values())
    return (_list(own) + (" in another form" if variants else "")) if own else "no other kernel"


def _list(names: Iterable[str]) -> str:
    return " and ".join(sorted(set(names)))
