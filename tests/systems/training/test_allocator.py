"""A snapshot of the allocator, made by hand in the form that torch 2.13 writes."""

from __future__ import annotations

from pathlib import Path

from systems.training.allocator import active_bytes

HERE = Path("/project/training")


def block(size: int, state: str, *frames: tuple[str, int]) -> dict:
    return {
        "size": -(-size // 512) * 512,
        "requested_size": size,
        "state": state,
        "frames": [{"filename": name, "line": line, "name": "forward"} for name, line in frames],
    }


def test_blocks_in_use_are_added_up_by_the_innermost_line_of_the_model() -> None:
    linear, ours = ("/packages/torch/linear.py", 130), ("/project/training/gpt.py", 70)
    segments = [
        {"blocks": [block(1000, "active_allocated", linear, ours, ("/project/training/step.py", 9))]},
        {"blocks": [block(24, "active_allocated", ours), block(4096, "inactive", ours)]},
        {"blocks": [block(7, "active_allocated", linear), {"size": 512, "state": "active_allocated"}]},
        {"blocks": [block(99, "active_pending_free", ours)]},
    ]
    assert active_bytes({"segments": segments}, HERE) == {"gpt.py:70": 1024, "elsewhere": 7, "before": 512}
