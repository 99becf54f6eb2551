"""Functions that the worker tests call by name."""

import os
import time

import numpy as np

from warplab.worker.process import DeviceFault


def double(array, scale=2):
    return {"array": array * scale, "pid": os.getpid(), "nested": [{"raw": b"\x00\xff"}, None, 1.5]}


def printing():
    print("this must not disturb the answers")
    os.write(1, b"nor this")
    return "fine"


def fail():
    raise ValueError("the reason")


def fault():
    raise DeviceFault("out of bounds: the kernel accessed an illegal address")


def die():
    os._exit(3)


def hang():
    time.sleep(60)


def unsendable():
    return object()


def halves():
    return np.arange(6, dtype=np.float16).reshape(2, 3)[:, ::2]
