"""The constants of each chip: measured on an H200; for others, scaled by their datasheets."""

from __future__ import annotations

from dataclasses import replace

from warplab.emulator.clock.constants import Constants
from warplab.errors import PlanError
from warplab.hardware.chips import H200
from warplab.hardware.records import Chip, Math

MEASURED = Constants()  # of an H200

# Lanes that pipes of an SM start per cycle where they differ: CUDA C++ Programming Guide, "Arithmetic Instructions".
_LANES: dict[tuple[int, int], dict[str, float]] = {
    (7, 0): {"fp64": 32},
    (7, 5): {"fp64": 2},
    (8, 0): {"fp64": 32},
    (8, 9): {"fp64": 2},
    (9, 0): {},
    (10, 0): {},
}


def constants_of(chip: Chip) -> Constants:
    """A chip's constants. Raises PlanError for one without a boost clock or of a generation that is not known here."""
    lanes = _LANES.get(chip.compute_capability)
    if chip.boost_clock is None or lanes is None:
        raise PlanError(f"The time on {chip.name} cannot be estimated: its clock or its instruction rates are unknown.")
    memory = chip.bandwidth / H200.bandwidth
    cycles = chip.sms * chip.boost_clock / (H200.sms * (H200.boost_clock or 1.0))
    return replace(
        MEASURED,
        clock=chip.boost_clock,
        fp32=chip.cuda_cores_per_sm,
        l2_read=MEASURED.l2_read * cycles,
        dram_read=MEASURED.dram_read * memory,
        l2_write=MEASURED.l2_write * cycles,
        product_rate=MEASURED.product_rate * _tensor(chip) / _tensor(H200),
        **lanes,
    )


def _tensor(chip: Chip) -> float:
    """FLOP per cycle and SM of half precision."""
    return (chip.peak(Math.FP16_TENSOR) or 0.0) / (chip.sms * (chip.tensor_clock or chip.boost_clock or 1.0))
