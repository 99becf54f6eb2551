"""What several families of the table have in common: alternatives of forms, and where values are tested."""

from __future__ import annotations

INTEGERS = "{.u16,.s16,.u32,.s32,.u64,.s64}"
WIDE_INTEGERS = "{.u32,.s32,.u64,.s64}"
BITS = "{.b16,.b32,.b64}"
ROUND = "{.rn,.rz,.rm,.rp}"
HALVES = "{.f16,.f16x2,.bf16,.bf16x2}"
CONDITIONS = "{.eq,.ne,.lt,.le,.gt,.ge}"
FLOAT_CONDITIONS = "{.eq,.ne,.lt,.le,.gt,.ge,.equ,.neu,.ltu,.leu,.gtu,.geu,.num,.nan}"
COMPLETES = ".mbarrier::complete_tx::bytes"

RANDOM = "corpus/emulator/random_operations.py"  # drawn for the random programs, with their meaning beside them
