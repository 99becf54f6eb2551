"""What the emulator does not have, in words: the feature that an instruction belongs to, and what to use instead."""

from __future__ import annotations

import re

_NOT_HERE = "which the emulator does not have"
# By a pattern of the opcode, the first that fits.
_FEATURES = (
    (r"(tex|tld4|txq|istypep\.(texref|samplerref))\b", "textures", "read arrays in global memory"),
    (r"(suld|sust|sured|suq|istypep\.surfref)\b", "surfaces", "read and write arrays in global memory"),
    (r"mma\.sp\b.*\.e[45]m[23]\b", "sparse products of 8-bit floats (mma.sp)", "sparse ones of f16, or dense ones"),
    (
        r"mma\.sp\b",
        "this shape, these types or this selector of sparse products (mma.sp)",
        "a shape that docs/instructions.md lists",
    ),
    (r"wgmma\.mma_async\.sp\b", "sparse products of a warpgroup (wgmma .sp)", "dense ones"),
    (r"w?g?mma\b.*\.b1\b", "this shape of products of single bits", "one that docs/instructions.md lists"),
    (r"w?mma\b.*\.[us]4\b", "this shape of 4-bit products", "one of the shapes m8n8k32, m16n8k32 and m16n8k64"),
    (r"w?mma\b", "this shape and these types of tensor-core products", "a shape that docs/instructions.md lists"),
    (r"wgmma\b", "this shape and these types of a warpgroup's products", "one that docs/instructions.md lists"),
    (r"tcgen05\b", "this form of Blackwell's tensor cores (tcgen05)", "one that docs/instructions.md lists"),
    (r"cp\.async\.bulk.*im2col", "tensor copies in im2col mode", "tiled ones"),
    (r"tensormap\.", "tensor maps that kernels change", "a tensor map for each tensor"),
    (r"(ld|st|red|multimem)\w*\.multimem|multimem\.", "multicast memory of several GPUs", "one GPU's memory"),
    (r"(fence|membar)\b", "this kind of fence", "__threadfence()"),
    (r"clusterlaunchcontrol\.", "the launch control of clusters", "a counter in global memory"),
    (r"(stacksave|stackrestore|alloca)\b", "stack arrays of a size known at run time", "one of a fixed size"),
    (r"call\b", "a function whose code is not in its PTX", "one that is defined beside it"),
    (r"(cp\.)?(prefetch|applypriority|discard|createpolicy)", "this hint for caches", "none"),
)


def opcode_of(text: str) -> str:
    """The opcode of an instruction's text, behind its guard."""
    return re.sub(r"^@!?\s*\S+\s+", "", text).split(None, 1)[0].rstrip(";") if text.split() else "an instruction"


def feature_of(text: str) -> str:
    """What an instruction that is not taken needs, as the object of "needs", with what to use instead."""
    opcode = opcode_of(text)
    if special := re.search(r"%(envreg\d+|clock\w*|pm\d+\w*|[a-z_]+_smem_\w+)", text):
        return f"the special register %{special[1]}, {_NOT_HERE}: leave out what reads it"
    for pattern, feature, instead in _FEATURES:
        if re.match(pattern, opcode):
            return f"{feature}, {_NOT_HERE}: use {instead} instead"
    return f"the instruction {opcode}, {_NOT_HERE}: write the kernel without it"
