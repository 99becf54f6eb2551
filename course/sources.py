"""Which files a record measures, and their digest: by it a record is known to be of an older kernel.

A record of a results file carries the digest of the kernel's files as `source`. Records of the judge, of NCCL or of the
machine itself measure no kernel and carry none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

Read = Callable[[str], bytes]  # the content of a file, by its path below the root; raises OSError
_LAYER = (
    "systems/moe/layer/chain.py",
    "systems/moe/layer/one_kernel.cu",
    "systems/moe/layer/one_kernel_work.cuh",
    "systems/moe/layer/wide.cu",
    "systems/moe/layer/wide_tile.cuh",
    "solutions/10_index_shuffle/submission_cuda.py",
    "solutions/11_grouped_gemm/rung_4_shared_strips.py",
)
_ROW_PARALLEL = ("systems/peer/row_parallel.cu", "systems/peer/waiting.cuh")
_ALL_REDUCE = ("systems/peer/all_reduce.cu", "systems/peer/waiting.cuh")
_PRODUCT = "systems/search/product.py"  # the template is in it
_COLD = ("cold ", "barrier", "l1 request", "mma.")  # how the names of what cold.cu measures begin
_ATTENTION = {  # as benchmarks.attention and benchmarks.decode.attention name them
    "last rung": "solutions/21_attention/rung_6_without_gaps.py",
    "in turns": "solutions/21_attention/rung_5_in_turns.py",
    "warp roles": "solutions/21_attention/rung_4_roles.py",
    "reference": "solutions/21_attention/submission_cuda.py",
    "decode": "systems/attention/decode.cu",
    "gradients": "systems/attention/backward.cu",
}
_OF_FUNCTIONS = tuple(
    f"systems/kernels/{name}"
    for name in (
        "warpgroups.cu", "warps.cu", "few.cu", "thin.cu", "loose.cuh", "copies.cu", "add_parts.cu", "chips.py",
        "model.py", "half_recipes.py", "lean.py", "fp8.cu", "fp8.py", "shuffle.cu", "routing.py",
    )
)  # fmt: skip
_HALF_PRODUCT = ("systems/search/warps.cu", "systems/search/warpgroups.cu")


def files_of(results: str, name: str, variant: str = "") -> tuple[str, ...]:
    """The kernel's files that a record of a results file (its name without .json) measures, below the root."""
    results = results.partition("_nvidia_")[0]
    lab, _, file = name.partition("/")
    if results == "clock_times":  # of submissions of the corpus, no file: some are diffs
        if lab == "textbook":
            return ("benchmarks/clock/kernels.py",)
        kind, _, stem = file.partition("/")
        return (f"solutions/{lab}/{stem}.py",) if kind == "solution" else ()
    if results in ("labs", "rows"):
        return (f"solutions/{name}/{variant}.py",)
    if results in ("gemm", "gemm_alone", "fp8") or lab in ("10_index_shuffle", "11_grouped_gemm"):
        return (f"solutions/{name}.py",) if file else ()
    if results == "experts":
        return {
            "layer": _LAYER,
            "backward": ("systems/moe/backward/chain.py",),
            "gradients_fp8": ("systems/moe/gradients_fp8/product.py", "systems/moe/gradients_fp8/quantise.py"),
        }.get(lab, ())
    if lab == "solutions":
        return (f"{name}.py",)
    if lab == "sized":
        return ("benchmarks/sized_kernels.py",)
    if results == "stopwatch" and lab[:2].isdigit():
        return (f"solutions/{name}.py",) if file else ()
    if results == "collectives":
        by_hand = variant.startswith("by hand") and "torch" not in variant and not variant.endswith("nccl")
        return (_ROW_PARALLEL if "row-parallel" in name else _ALL_REDUCE) if by_hand else ()
    if results == "fusion" and variant.startswith("lab 05, "):
        return (f"solutions/05_softmax/{variant.removeprefix('lab 05, ')}.py",)
    if results == "attention":
        return (_ATTENTION[name],) if name in _ATTENTION else ()
    if results == "microbench" and name.startswith(_COLD):
        return ("benchmarks/micro/cold.cu",)
    return {
        "megakernel": ("systems/megakernel/interpreter.cu",),
        "products": _OF_FUNCTIONS,
        "search": _HALF_PRODUCT,
        "search_clock": (_PRODUCT,),
        "search_space": (_PRODUCT,),
        "microbench": tuple(f"benchmarks/micro/{part}.cu" for part in ("memory", "sm", "tensor")),
    }.get(results, ())


def digest(files: Sequence[str], read: Read) -> str:
    """Twelve hex digits for the contents of some files; "" for none. Raises OSError if one is missing."""
    if not files:
        return ""
    made = hashlib.sha256()
    for file in files:
        content = read(file)
        made.update(f"{len(content)}\0".encode() + content)
    return made.hexdigest()[:12]


def in_folder(root: Path) -> Read:
    """Reads files below a folder."""
    return lambda file: (root / file).read_bytes()
