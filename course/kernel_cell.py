"""The cell magic `%%kernel NAME`: a small kernel of a notebook's own, to be run under the emulator's microscope.

The cell is a whole file with a host function NAME, like a submission, but belongs to no lab. Load it with
`%load_ext course.kernel_cell`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autograder.spec.lab import CHECKOUT
from course.captures import captured
from course.cell_file import cell_file
from warplab.emulator import Profile, profile
from warplab.errors import WarplabError
from warplab.files import write_whole
from warplab.plan.assemble import with_machine_code
from warplab.plan.model import ArrayArgument, Dim3, HostCall, Role, ScalarArgument

HOPPER, BLACKWELL = "sm_90a", "sm_100a"


class KernelCellError(WarplabError):
    """A cell has no such host function, or it is given other arguments than it takes."""


@dataclass(frozen=True)
class KernelCell:
    """A cell's kernels, launched by its host function `name`, which takes `parameters`."""

    name: str
    path: Path
    parameters: tuple[str, ...]

    @property
    def architecture(self) -> str:
        """What the cell is compiled for and emulated as: Hopper, unless it uses Blackwell's tensor memory."""
        return BLACKWELL if "tcgen05" in self.path.read_text(encoding="utf-8") else HOPPER

    def run(
        self,
        inputs: dict[str, np.ndarray | int | float],
        *,
        launch: int = 0,
        block: Dim3 = (0, 0, 0),
        **outputs: tuple[str, tuple[int, ...]],
    ) -> Profile:
        """Run the cell on the emulator: arrays and numbers go in by name, each output is a dtype and a shape.

        `launch` and `block` say which block the profile's pictures are of. Raises KernelCellError if names are missing
        or not known, warplab.plan.capture.failure.CaptureFailure if the cell cannot be captured.
        """
        if set(self.parameters) != inputs.keys() | outputs.keys():
            raise KernelCellError(
                f"{self.name} takes {', '.join(self.parameters)}, not {', '.join([*inputs, *outputs])}."
            )
        arrays = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
        arguments: list[ArrayArgument | ScalarArgument] = []
        for parameter in self.parameters:
            if parameter in outputs:
                dtype, shape = outputs[parameter]
                arguments.append(ArrayArgument(parameter, dtype, shape, Role.OUTPUT))
            elif parameter in arrays:
                array = arrays[parameter]
                arguments.append(ArrayArgument(parameter, str(array.dtype), array.shape, Role.INPUT))
            else:
                arguments.append(ScalarArgument(parameter, inputs[parameter]))  # type: ignore[arg-type]
        (plan,) = captured(self.path, [HostCall(self.name, tuple(arguments))], self.architecture)
        plan = with_machine_code(plan, self.architecture)
        return profile(plan, arrays, launch=launch, block=block, architecture=self.architecture)


def kernel_cell(name: str, text: str, folder: Path | None = None) -> KernelCell:
    """Keep a cell's text as a file. Raises KernelCellError if it is not Python or has no function `name`."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise KernelCellError(f"Line {error.lineno} of the cell is not Python: {error.msg}.") from None
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if name not in functions:
        found = ", ".join(functions) or "none"
        raise KernelCellError(f"%%kernel {name} wants a host function {name!r} in the cell; there: {found}.")
    path = (folder or CHECKOUT / "build" / "kernels") / f"{name}.py"
    write_whole(path, text)
    return KernelCell(name, path, tuple(argument.arg for argument in functions[name].args.args))


def load_ipython_extension(shell) -> None:
    """Called by `%load_ext course.kernel_cell`."""

    def kernel(line: str, cell: str) -> None:
        """`%%kernel NAME`: keep the cell; then `NAME.run({"a": a}, c=("float32", (16, 8)))` runs it."""
        try:
            shell.user_ns[line.strip()] = kernel_cell(line.strip(), cell_file("kernel", line, cell))
        except WarplabError as error:
            print(error)

    shell.register_magic_function(kernel, magic_kind="cell", magic_name="kernel")
