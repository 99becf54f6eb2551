"""What stands for a tensor map while a submission is captured."""

from __future__ import annotations

from dataclasses import dataclass, replace

from warplab.plan.capture.arrays import CapturedArray
from warplab.plan.model import TensorMap


@dataclass(frozen=True)
class CapturedTensorMap:
    """What stands for a tensor map, or for the address of one, while a submission is captured."""

    array: CapturedArray
    tensor: TensorMap
    is_address: bool = False

    def in_memory(self) -> CapturedTensorMap:
        """The address of the map instead of the map itself."""
        return replace(self, is_address=True)
