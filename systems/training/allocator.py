"""What a GPU's allocator holds, by the line of the model that asked for it, from the allocator's own snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).resolve().parent
_ACTIVE = "active_allocated"


def active_bytes(snapshot: Mapping[str, Any], folder: Path = _FOLDER) -> dict[str, int]:
    """Bytes asked for that are in use, by file and line: the innermost frame that lies in `folder`, else "elsewhere".

    `snapshot` is what torch.cuda.memory._snapshot() gives after _record_memory_history(). Blocks from before that have
    no frames and count as "before".
    """
    found: dict[str, int] = {}
    for segment in snapshot["segments"]:
        for block in segment["blocks"]:
            if block["state"] == _ACTIVE:
                place = _place(block.get("frames") or (), folder)
                found[place] = found.get(place, 0) + block.get("requested_size", block["size"])
    return found


def _place(frames: Any, folder: Path) -> str:
    for frame in frames:
        path = Path(frame["filename"])
        if path.parent == folder:
            return f"{path.name}:{frame['line']}"
    return "elsewhere" if frames else "before"
