"""Draws the README's pictures from the files in benchmarks/results: `python -m benchmarks.figures`."""

from __future__ import annotations

from pathlib import Path

from autograder.lab import find_lab
from warplab import results
from warplab.hardware import Roofline, find_chip
from warplab.hardware.chips import Math
from warplab.show.ladder import Metric, ladder
from warplab.show.roofline import Point, roofline

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
GEMM = "06_tiled_gemm"
REFERENCE = "submission"


def main() -> None:
    """Write docs/images/roofline.png and docs/images/tiled_gemm_ladder.png."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    labs = results.read(results.DIRECTORY / "labs.json")
    ceilings = results.read(results.DIRECTORY / "ceilings.json")
    picture = _roofline(labs, ceilings)
    picture.savefig(IMAGES / "roofline.png", dpi=160)
    picture = _ladder(labs)
    picture.savefig(IMAGES / "tiled_gemm_ladder.png", dpi=160)


def _roofline(labs: results.Results, ceilings: results.Results):
    gpu = labs.header.gpu
    measured = Roofline(
        ceilings.find("fp32_fma", "rate").value, ceilings.find("copy", "rate").value, f"measured on this {gpu}"
    )
    chip = find_chip(gpu)
    datasheet = Roofline(chip.peak(Math.FP32), chip.bandwidth, "datasheet") if chip else None
    points = []
    for record in labs.records:
        lab = find_lab(record.name)
        wanted = record.variant == REFERENCE or lab.name == GEMM
        if record.metric != "time" or not wanted:
            continue
        dimensions = lab.task.timing.dimensions
        flops, moved = lab.task.flops(dimensions), lab.task.bytes_moved(dimensions)
        if flops:
            points.append(Point(_label(record), flops / moved, flops / record.value * 1e3))
    return roofline(measured, points, datasheet=datasheet, title=f"The labs' kernels on one {gpu}")


def _ladder(labs: results.Results):
    rungs = [r for r in labs.records if r.name == GEMM and r.metric == "rate"]
    sectors = [labs.find(GEMM, "global_load_sectors", variant=r.variant).value for r in rungs]
    top = rungs[0].baseline_value
    assert top is not None
    return ladder(
        [_label(r) for r in rungs],
        [
            Metric("speed", "TFLOP/s", [r.value / 1e12 for r in rungs], limit=top / 1e12, limit_name="FMA ceiling"),
            Metric("global load sectors", "sectors", sectors, higher_is_better=False),
        ],
        title="Tiled GEMM in Numba, rung by rung",
        subtitle=f"fp16 in, float32 sums on CUDA cores, 4096 cubed, {labs.header.gpu}; counters from the emulator",
    )


def _label(record: results.Record) -> str:
    lab = record.name.split("_", 1)[1].replace("_", " ")
    if record.variant == REFERENCE:
        return "reference" if record.name == GEMM else lab
    return record.variant.split("_", 2)[2].replace("_", " ")


if __name__ == "__main__":
    main()
