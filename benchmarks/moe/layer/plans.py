"""The two ways to compute a layer as plans: which shapes, which choices, and the submissions that are recorded."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import systems.moe.layer
from autograder.spec.lab import solutions_folder
from warplab.plan.capture.submission import capture
from warplab.plan.model import ArrayArgument, HostCall, Plan, Role, ScalarArgument

KERNELS = Path(systems.moe.layer.__path__[0])
SHUFFLE = solutions_folder() / "10_index_shuffle" / "submission_cuda.py"
PRODUCTS = solutions_folder() / "11_grouped_gemm" / "rung_4_shared_strips.py"
ONE_KERNEL, CHAIN = "one_kernel", "chain"
WIDE: Literal["wide"] = "wide"
SOURCES = {ONE_KERNEL: ("one_kernel_work.cuh", "one_kernel.cu"), WIDE: ("wide_tile.cuh", "wide.cu")}
MOST_TOKENS = 256  # of the one kernel

Choice = tuple[int, int, int, str]
Products = tuple[Choice, Choice] | Literal["wide"]  # lab 11's for gates and values, and for down; or wide.py's


@dataclass(frozen=True)
class Layer:
    """A layer's experts that are on one GPU; every token goes to `k` of them."""

    name: str
    experts: int
    k: int
    hidden: int
    inside: int


# An eighth of DeepSeek-V3's 256 experts, as with eight GPUs that share them: as many rows arrive at each as leave it.
# Scout's 16 are all here.
LAYERS = (Layer("DeepSeek-V3, 32 of 256 experts", 32, 8, 7168, 2048), Layer("Llama 4 Scout", 16, 1, 5120, 8192))
DECODE, PREFILL = (1, 16, 64, 256), (4096,)


def arrays_of(layer: Layer, tokens: int) -> tuple[ArrayArgument, ...]:
    """Arrays of a layer's host function. Scales are for blocks of 128 x 128 weights."""
    e, d, f = layer.experts, layer.hidden, layer.inside
    return (
        ArrayArgument("x", "float16", (tokens, d), Role.INPUT),
        ArrayArgument("scores", "float32", (tokens, e), Role.INPUT),
        ArrayArgument("up8", "uint8", (e, 2 * f, d), Role.INPUT),
        ArrayArgument("up_scale", "float32", (e, 2 * f // 128, d // 128), Role.INPUT),
        ArrayArgument("down8", "uint8", (e, d, f), Role.INPUT),
        ArrayArgument("down_scale", "float32", (e, d // 128, f // 128), Role.INPUT),
        ArrayArgument("out", "float32", (tokens, d), Role.OUTPUT),
    )


def one_kernel(
    layer: Layer,
    sizes: Sequence[int],
    architecture: str,
    folder: Path,
    launches: int = 1,
    sms: int | None = None,
) -> list[Plan]:
    """The layer in one launch, or in three, for each number of tokens, on `sms` SMs if that is given.

    Raises CaptureFailure.
    """
    text = with_source(ONE_KERNEL)
    path = folder / f"{ONE_KERNEL}.py"
    path.write_text(on(sms, text), "utf-8")
    numbers = {"launches": launches, "k": layer.k}
    scalars = tuple(ScalarArgument(name, value) for name, value in numbers.items())
    calls = [HostCall("layer_by", (*scalars, *arrays_of(layer, tokens))) for tokens in sizes]
    return capture(path, calls, (architecture,), timeout=240)


def with_source(name: str) -> str:
    """The file of host functions of this name with its kernel's source in it."""
    source = "\n".join((KERNELS / part).read_text("utf-8") for part in SOURCES[name])
    return (KERNELS / f"{name}.py").read_text("utf-8").replace('\nSOURCE = ""', f'\nSOURCE = r"""\n{source}"""')


def on(sms: int | None, text: str) -> str:
    """A file with another number of SMs, if that is given."""
    return text if sms is None else text.replace("\nSMS = 132 ", f"\nSMS = {sms} ")


def captured(text: str, function: str, arrays: Sequence[ArrayArgument], architecture: str, sms: int | None) -> Plan:
    """A call of a host function of the file `text`, on `sms` SMs if that is given. Raises CaptureFailure."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "product.py"
        path.write_text(on(sms, text), "utf-8")
        return capture(path, [HostCall(function, tuple(arrays))], (architecture,), timeout=240)[0]


def chain_choices(tokens: int) -> tuple[Products, ...]:
    """What the chain's products are raced with: of lab 11's what won in its records, and the wide ones."""
    low, lower, tall = (64, 128, 1, "two"), (64, 64, 1, "two"), (128, 128, 1, "two")
    if tokens <= MOST_TOKENS:
        return (low, low), (lower, lower), (tall, low), (low, lower), WIDE
    wide, pair, flat = (128, 192, 1, "one"), (128, 256, 2, "half"), (64, 192, 1, "one")
    return (wide, wide), (pair, pair), (flat, flat), (low, low), WIDE


def launches(wide: bool) -> tuple[str, ...]:
    """What the kernels of a chain do, in their order."""
    first = ("gate, up, SwiGLU, quantise",) if wide else ("gate and up", "SwiGLU, quantise")
    return ("shuffle", "gather, quantise", *first, "down", "combine")


def chain(
    layer: Layer,
    sizes: Sequence[int],
    architecture: str,
    folder: Path,
    products: Products,
    sms: int | None = None,
) -> list[Plan]:
    """The layer as a chain of kernels for each number of tokens: six, or five if the products are wide.

    Raises CaptureFailure.
    """
    files = {"shuffle": (SHUFFLE.read_text("utf-8"), "index_shuffle")}
    if products == WIDE:
        text = on(sms, with_source(WIDE))
        files |= {"up_wide": (text, "up_wide"), "down_wide": (text, "down_wide")}
        made = "up_wide, down_wide"
    else:
        files["multiply_by"] = (on(sms, PRODUCTS.read_text("utf-8")), "multiply_by")
        made = f"of_lab_11(multiply_by, {products!r}, k, len(x))"
    lines = [(KERNELS / f"{CHAIN}.py").read_text("utf-8"), ""]
    lines += [
        "",
        "def of_a_file(text, name):",
        "    names = {}",
        "    exec(text, names)",
        "    return names[name]",
        "",
        "",
    ]
    lines += [f"{name} = of_a_file({text!r}, {function!r})" for name, (text, function) in files.items()]
    arguments = "k, x, scores, up8, up_scale, down8, down_scale, out"
    lines += ["", "", f"def layer({arguments}):", f"    layer_by(shuffle, ({made}), {arguments})", ""]
    path = folder / f"{CHAIN}.py"
    path.write_text("\n".join(lines), "utf-8")
    calls = [HostCall("layer", (ScalarArgument("k", layer.k), *arrays_of(layer, tokens))) for tokens in sizes]
    return capture(path, calls, (architecture,), timeout=240)
