"""Writes the machine code of the interpreter's parts for the wheel: `python -m warplab.emulator.build_objects`.

Parts are compiled side by side. Numba makes one LLVM module of each; LLVM optimises it and makes code of it for each
target, so that one machine builds for all of them; with `--here` for those of its own kind alone.
"""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from llvmlite import binding
from numba.core.llvm_bindings import create_pass_builder

from warplab.emulator import compilation
from warplab.emulator.compiled import Piece, source_digest
from warplab.emulator.helpers import Helpers
from warplab.emulator.objects import FOLDER, MANIFEST, TARGETS, Target
from warplab.files import write_whole
from warplab.hardware.processors import usable_processors


def main() -> int:
    """Write objects of all parts for all targets into the package, in place of those that are there."""
    here = sys.argv[1:] == ["--here"]
    targets = [target for target in TARGETS if not here or target.machine == platform.machine()]
    shutil.rmtree(FOLDER, ignore_errors=True)
    manifest = {}
    with ProcessPoolExecutor(min(usable_processors(), len(Piece))) as beside:
        for part, (name, codes) in zip(Piece, beside.map(objects_of, Piece, repeat(targets)), strict=True):
            for target, code in zip(targets, codes, strict=True):
                write_whole(FOLDER / target.name / f"{part}.o", code)
                print(f"{target.name} {part}: {len(code):,} bytes", file=sys.stderr, flush=True)
            manifest[part.value] = {"sources": source_digest(part), "function": name}
    write_whole(FOLDER / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    return 0


def objects_of(part: Piece, targets: Sequence[Target]) -> tuple[str, list[bytes]]:
    """The name of a part's function, and its object file for each target."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    name, module = compilation.module_of(part, Helpers())
    return name, [object_of(module, target) for target in targets]


def object_of(bitcode: bytes, target: Target) -> bytes:
    """An object file of an LLVM module that is not optimised yet, optimised as Numba does for its own processor."""
    machine = binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, opt=3, reloc=target.reloc, codemodel="jitdefault", jit=True
    )
    module = binding.parse_bitcode(bitcode)
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    for opt in (0, 3):
        passes = create_pass_builder(machine, opt=opt, loop_vectorize=opt == 3, slp_vectorize=False)
        manager = passes.getModulePassManager()
        if opt == 0:  # Numba's "cheap" passes before the whole set
            manager.add_loop_rotate_pass()
            manager.add_instruction_combine_pass()
            manager.add_jump_threading_pass()
        manager.add_refprune_pass()
        manager.run(module, passes)
    return machine.emit_object(module)


if __name__ == "__main__":
    sys.exit(main())
