"""Where this project keeps files of the user's that can be made again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

# Folders in the cache, of what a confined worker may read
COMPILED = "compiled"  # warplab.emulator.compiled fills it
CEILINGS = "ceilings"  # warplab.hardware.ceilings
TRUSTED = "trusted"  # warplab.gpu.trusted


def cache_folder() -> Path:
    """$WARPLAB_CACHE, else warplab/ where this system keeps a user's caches; it may not exist yet."""
    if chosen := os.environ.get("WARPLAB_CACHE"):
        return Path(chosen)
    return platformdirs.user_cache_path("warplab", appauthor=False)
