"""A kernel that attacks a naive judge, in the capture process: what that judge says, and what the kernel does alone.

The naive judge is the lab's, a Python program that is sent as text. It runs in the submission's own process, as judges
that can be fooled do, so whatever it says may be forged. What the kernel did alone, without a judge that it could
fool, goes back as arrays, and who gets these compares them with the truth elsewhere.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
_MODULE = "naive_judge"


def encode_attack(judge: str, hole: str, seed: int, alone: Sequence[tuple[Matrix, Matrix]]) -> str:
    """What `attack` takes as `content`: the judge's text, its hole, its seed, and the inputs of the calls alone."""
    calls = [[_packed(a), _packed(b)] for a, b in alone]
    return json.dumps({"judge": judge, "hole": hole, "seed": seed, "alone": calls})


def load_judge(content: str) -> ModuleType:
    """The naive judge of `content`; to be loaded before any line of the submission runs."""
    module = ModuleType(_MODULE)
    sys.modules[_MODULE] = module  # data classes look theirs up
    exec(compile(json.loads(content)["judge"], f"{_MODULE}.py", "exec"), module.__dict__)  # the lab's own, trusted
    return module


def attack(judge: ModuleType, kernel: Callable[..., Any], content: str) -> bytes:
    """JSON {"verdict", "alone"}: what the naive judge says, after the calls alone."""
    has = json.loads(content)
    alone = _alone(judge, kernel, [(_unpacked(a), _unpacked(b)) for a, b in has["alone"]])
    verdict = judge.judge(kernel, has["hole"], has["seed"])
    return json.dumps({"verdict": asdict(verdict), "alone": alone}).encode()


def _alone(judge: ModuleType, kernel: Callable[..., Any], calls: Sequence[tuple[Matrix, Matrix]]) -> list[Any]:
    """What each call leaves; inputs of one shape come in the same memory."""
    gpu = judge.Gpu()
    places: dict[tuple[int, ...], tuple[Matrix, Matrix, Matrix]] = {}
    done = []
    for values in calls:
        shape = (*values[0].shape, *values[1].shape)
        if shape not in places:
            c = np.empty((shape[0], shape[3]), np.float32)
            places[shape] = np.empty_like(values[0]), np.empty_like(values[1]), c
        a, b, c = places[shape]
        a[:], b[:] = values
        c[:] = np.nan
        try:
            returned = kernel(gpu, a, b, c)
            at_return = _packed(returned if type(returned) is np.ndarray and returned.shape == c.shape else c)
            gpu.wait_for_all()
            looked_at = np.asarray(c if returned is None else returned)
            later = _packed(looked_at if looked_at.shape == c.shape else c)
            done.append({"at_return": at_return, "later": later, "a": _packed(a), "b": _packed(b), "raised": False})
        except Exception:
            nothing = _packed(np.full_like(c, np.nan))
            done.append({"at_return": nothing, "later": nothing, "a": _packed(a), "b": _packed(b), "raised": True})
    return done


def _packed(array: NDArray[Any]) -> dict[str, Any]:
    plain = np.array(array, np.float32, order="C")
    return {"shape": list(plain.shape), "data": base64.b64encode(plain.tobytes()).decode()}


def _unpacked(packed: dict[str, Any]) -> Matrix:
    return np.frombuffer(base64.b64decode(packed["data"]), np.float32).reshape(packed["shape"]).copy()
