"""The ceilings on record, for whoever measures on the GPU that they are of."""

from __future__ import annotations

from course import results


def ceilings() -> tuple[float, float] | None:
    """FLOP/s of 16-bit products and bytes/s of a copy, if those on record are of the GPU that is here."""
    recorded = results.read(results.DIRECTORY / "ceilings.json")
    if recorded.header.gpu != results.make_header("").gpu:
        return None
    return recorded.find("tensor_fp16", "rate").value, recorded.find("copy", "rate").value
