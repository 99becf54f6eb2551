"""Runs the Triton kernels on a GPU and keeps what the emulator's tests need.

`python -m corpus.triton.record DIR` puts NAME.ptx, NAME.json (entry, warps, shared bytes, grid) and NAME.npz
(outputs) of each case into DIR, and of a softmax of torch.compile as inductor_softmax. Needs the variables
TRITON_CACHE_DIR and TORCHINDUCTOR_CACHE_DIR, each naming an empty folder.
"""

from __future__ import annotations

import json
import lzma
import os
import sys
import traceback
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl

from corpus.triton import kernels
from corpus.triton.cases import CASES, INDUCTOR, Case
from warplab.plan.model import ArrayArgument, Role

_VIEWS = {"bfloat16": torch.bfloat16, "float8e4nv": torch.float8_e4m3fn}


def main(folder: Path) -> int:
    """Exit code 1 if a case failed; its traceback is printed."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
    failed = 0
    for case in CASES:
        try:
            _record(case, folder)
        except Exception:  # the other cases are worth having
            failed += 1
            print(f"== {case.name} failed")
            traceback.print_exc(limit=-4, file=sys.stdout)
    try:
        _inductor(folder)
    except Exception:
        failed += 1
        traceback.print_exc(limit=-6, file=sys.stdout)
    print("triton", triton.__version__, "torch", torch.__version__, "failed", failed)
    return 1 if failed else 0


def _record(case: Case, folder: Path) -> None:
    inputs = case.entry.draw()
    tensors = {
        name: torch.from_numpy(value).cuda() for name, value in case.entry.values(inputs).items()
        if isinstance(value, np.ndarray)
    }  # fmt: skip
    passed = []
    for a in case.entry.arguments:
        if not isinstance(a, ArrayArgument):
            passed.append(a.value)
            continue
        tensor = tensors[a.name]
        if a.name in case.kinds:
            tensor = tensor.view(_VIEWS[case.kinds[a.name]])
        if a.name in case.tiles:
            from triton.tools.tensor_descriptor import TensorDescriptor

            tensor = TensorDescriptor.from_tensor(tensor, list(case.tiles[a.name]))
        passed.append(tensor)
    constants = {k: getattr(tl, v) if isinstance(v, str) else v for k, v in case.constants.items()}
    function = getattr(kernels, case.entry.function)
    compiled = function[case.grid](*passed, **constants, num_warps=case.warps, num_stages=case.stages)
    torch.cuda.synchronize()
    _keep(folder, case.name.split("/")[1], compiled.asm["ptx"], compiled.metadata._asdict(), case.grid)
    outputs = {
        a.name: tensors[a.name].cpu().numpy()
        for a in case.entry.arguments
        if isinstance(a, ArrayArgument) and a.role is not Role.INPUT
    }
    np.savez_compressed(folder / f"{case.name.split('/')[1]}.npz", **outputs)


def _keep(folder: Path, name: str, ptx: str, metadata: dict, grid: tuple[int, ...]) -> None:
    (folder / f"{name}.ptx.xz").write_bytes(lzma.compress(ptx.encode()))
    known = {
        "entry": metadata["name"],
        "warps": metadata["num_warps"],
        "shared": metadata["shared"],
        "grid": list(grid),
        "triton": triton.__version__,
    }
    (folder / f"{name}.json").write_text(json.dumps(known) + "\n")


def _inductor(folder: Path) -> None:
    """The kernel that torch.compile makes of a softmax, from the caches that it fills; its launch is caught."""
    from torch._inductor.runtime import triton_heuristics

    caught = []
    original = triton_heuristics.CachingAutotuner.run

    def run(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        caught.append((self, args))
        return result

    triton_heuristics.CachingAutotuner.run = run
    torch._inductor.config.compile_threads = 1
    a = torch.from_numpy(INDUCTOR.entry.draw()["a"]).cuda()
    out = torch.compile(lambda x: torch.softmax(x * 2 + 1, 1))(a)
    torch.cuda.synchronize()
    ((tuner, args),) = caught
    block = tuner.launchers[0].config.kwargs.get("XBLOCK", 1)
    print("inductor", [x if isinstance(x, int) else "tensor" for x in args], tuner.launchers[0].config)
    caches = (os.environ["TRITON_CACHE_DIR"], os.environ["TORCHINDUCTOR_CACHE_DIR"])
    path = next(p for cache in caches for p in Path(cache).rglob("triton_*softmax*.ptx"))
    metadata = json.loads(path.with_suffix(".json").read_text())
    _keep(folder, "inductor_softmax", path.read_text(), metadata, (-(-a.shape[0] // block),))
    np.savez_compressed(folder / "inductor_softmax.npz", out=out.cpu().numpy())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
