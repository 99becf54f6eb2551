"""The GPUs that a job runs on: a chip, the node around it and the network between nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from systems.network.links import find_link
from systems.parallel.shapes import LayoutError
from warplab.hardware.chips import A100, B200, GB200, H100, H200
from warplab.hardware.records import Chip, Math


@dataclass(frozen=True)
class Machine:
    """`node` GPUs with `inside` bytes/s each way a GPU over NVLink, and `across` bytes/s a GPU between nodes.

    Latencies are those of a hop, in seconds. `generation` names the constants of `calibration`.
    """

    name: str
    chip: Chip
    node: int
    inside: float
    across: float
    inside_latency: float
    across_latency: float
    generation: str

    def peak(self, math: Math) -> float:
        """Dense FLOP/s of one GPU. Raises LayoutError if the datasheet has no such figure."""
        peak = self.chip.peak(math)
        if peak is None:
            raise LayoutError(
                f"The datasheet of the {self.chip.name} has no peak for {math}: choose another precision."
            )
        return peak


def machine(name: str, chip: Chip, nvlink: str, nic: str, generation: str, node: int = 8, inside: float = 0) -> Machine:
    """A machine with a NIC a GPU; `inside` replaces the NVLink's bandwidth (bytes/s) where a chip has fewer links."""
    near, far, bus = find_link(nvlink), find_link(nic), find_link("pcie5")
    hop, way = 2 * near.latency, 2 * (bus.latency + far.latency)  # a port on either side; bus and NIC on either side
    return Machine(name, chip, node, inside or near.bandwidth, far.bandwidth, hop, way, generation)


DGX_A100 = machine("DGX A100, HDR", A100, "nvlink3", "infiniband_hdr", "ampere")
# Four Omni-Path links of 100 Gb/s for the eight GPUs of a node (BLOOM, arXiv:2211.05100, section 3.4.1).
JEAN_ZAY = replace(DGX_A100, name="Jean Zay, Omni-Path", across=4 * 12.5e9 / 8)
DGX_H100 = machine("DGX H100, NDR", H100, "nvlink4", "infiniband_ndr", "hopper")
DGX_H200 = machine("DGX H200, NDR", H200, "nvlink4", "infiniband_ndr", "hopper")
# The H800 is an H100 with less NVLink: 160 GB/s is the figure of DeepSeek-V3's report, section 3.2.2.
H800 = machine("H800, NDR", H100, "nvlink4", "infiniband_ndr", "hopper", inside=160e9)
# No run on Blackwell is among those of `runs`: the constants are Hopper's.
DGX_B200 = machine("DGX B200, NDR", B200, "nvlink5", "infiniband_ndr", "hopper")
NVL72 = machine("GB200 NVL72, NDR", GB200, "nvlink5", "infiniband_ndr", "hopper", node=72)
MACHINES = {one.name: one for one in (DGX_A100, JEAN_ZAY, DGX_H100, DGX_H200, H800, DGX_B200, NVL72)}
