"""A kernel that attacks a naive judge, in the capture process: what that judge says, and what the kernel left.

The naive judge is the lab's, a Python program that is sent as text. It runs in the submission's own process, as judges
that can be fooled do, so whatever it says may be forged. What each of its calls left goes back as arrays, and who gets
these compares them with the truth elsewhere. A kernel is called by that judge alone: no call can be told from another
by who makes it.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
_MODULE = "naive_judge"


def encode_attack(judge: str, hole: str, seed: int, blank: bool = False) -> str:
    """What `attack` takes as `content`: the judge's text, its hole and its seed.

    `blank`: what the kernel leaves is that of an earlier run, on matrices that hold no number.
    """
    return json.dumps({"judge": judge, "hole": hole, "seed": seed, "blank": blank})


def load_judge(content: str) -> ModuleType:
    """The naive judge of `content`; to be loaded before any line of the submission runs."""
    module = ModuleType(_MODULE)
    sys.modules[_MODULE] = module  # data classes look theirs up
    exec(compile(json.loads(content)["judge"], f"{_MODULE}.py", "exec"), module.__dict__)  # the lab's own, trusted
    return module


def attack(judge: ModuleType, kernel: Callable[..., Any], content: str) -> bytes:
    """JSON {"verdict", "alone"}: what the naive judge says, and what the kernel's calls left."""
    has = json.loads(content)
    draws = (_no_numbers, judge.draw) if has["blank"] else (judge.draw,)
    verdicts = []
    for draw in draws:
        vars(judge)["draw"] = draw
        verdicts.append(judge.judge(kernel, has["hole"], has["seed"]))
    said, left = verdicts[-1], verdicts[0].left
    verdict = {"passed": said.passed, "seconds": said.seconds, "words": said.words}
    return json.dumps({"verdict": verdict, "alone": [_left(one) for one in left]}).encode()


def _no_numbers(size: tuple[int, int, int], seed: int, number: int) -> tuple[Matrix, Matrix]:
    m, k, n = size
    return np.full((m, k), np.nan, np.float32), np.full((k, n), np.nan, np.float32)


def _left(one: Any) -> dict[str, Any]:
    arrays = {name: _packed(getattr(one, name)) for name in ("at_return", "later", "a", "b")}
    return {**arrays, "raised": one.raised}


def _packed(array: NDArray[Any]) -> dict[str, Any]:
    plain = np.array(array, np.float32, order="C")
    return {"shape": list(plain.shape), "data": base64.b64encode(plain.tobytes()).decode()}
