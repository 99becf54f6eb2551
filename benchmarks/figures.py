"""Draws pictures from the files in benchmarks/results, for documents: `python -m benchmarks.figures`."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from autograder.spec.lab import find_lab
from autograder.spec.task import Ceiling
from benchmarks.gemm.ladder import order
from course import results
from course.figures.ladder import Metric, ladder
from warplab.figures.roofline import Point, roofline
from warplab.hardware import Roofline, find_chip
from warplab.hardware.records import Math

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
GEMM = "06_tiled_gemm"
REFERENCE = "submission"
SIZES = (4096, 16384)


def main() -> None:
    """Write roofline.png, tiled_gemm_ladder.png and product_ladder.png into docs/images."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    labs = results.read(results.DIRECTORY / "labs.json")
    ceilings = results.read(results.DIRECTORY / "ceilings.json")
    picture = _roofline(labs, ceilings)
    picture.savefig(IMAGES / "roofline.png", dpi=160)
    picture = _ladder(labs)
    picture.savefig(IMAGES / "tiled_gemm_ladder.png", dpi=160)
    picture = _products(results.read(results.DIRECTORY / "gemm.json"))
    picture.savefig(IMAGES / "product_ladder.png", dpi=160)


def _roofline(labs: results.Results, ceilings: results.Results):
    gpu = labs.header.gpu
    measured = Roofline(
        ceilings.find("fp32_fma", "rate").value, ceilings.find("copy", "rate").value, f"measured on this {gpu}"
    )
    chip = find_chip(gpu)
    peak = chip.peak(Math.FP32) if chip else None
    datasheet = Roofline(peak, chip.bandwidth, "datasheet") if chip and peak else None
    points = []
    for record in labs.records:
        lab = find_lab(record.name)
        wanted = record.variant == REFERENCE or lab.name == GEMM
        of_this_roof = lab.task.compute_ceiling is Ceiling.FP32_FMA  # tensor cores have a higher one
        if record.metric != "time" or not wanted or not of_this_roof:
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


def _products(gemm: results.Results):
    names = sorted({r.name for r in gemm.records if r.variant == "squares"}, key=order)
    metrics = []
    for size in SIZES:
        shape = (size, size, size)
        found = {
            r.name: r for r in gemm.records if r.variant == "squares" and r.shape == shape and r.dtype == "float16"
        }
        library = median(r.baseline_value for r in found.values() if r.baseline_value)
        values = [found[name].value / 1e12 if name in found else None for name in names]
        metrics.append(Metric(f"{size} cubed", "TFLOP/s", values, limit=library / 1e12, limit_name="cuBLAS"))
    return ladder(
        [_product(name) for name in names],
        metrics,
        title="A matrix product, from naive to past the library",
        subtitle=f"fp16 in, float32 sums, {gemm.header.gpu}; N(0, 1) data, cold L2, in turns with torch.matmul",
    )


def _product(name: str) -> str:
    lab, stem = name.split("/")
    words = " ".join(word for word in stem.split("_") if word != "rung" and not word.isdecimal())
    return f"{lab[:2]} {words}"


def _label(record: results.Record) -> str:
    lab = record.name.split("_", 1)[1].replace("_", " ")
    if record.variant == REFERENCE:
        return "reference" if record.name == GEMM else lab
    return record.variant.split("_", 2)[2].replace("_", " ")


if __name__ == "__main__":
    main()
