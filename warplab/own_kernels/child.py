"""The child process of a run: calls the user's own host function, recording its launches, and answers with a plan.

It is started with a folder: `call` in it is what to do, `answer` what came of it, both pickles of `messages`. It runs
the user's own code for the user, so that it has no sandbox; what it prints goes where the parent sends it.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import pickle
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from warplab.errors import PlanError
from warplab.own_kernels.host_results import HostResults
from warplab.own_kernels.listing import Listing
from warplab.own_kernels.messages import Failed, OwnCall, Recorded, View
from warplab.plan.capture import hooks
from warplab.plan.capture.child import run_host_code
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.of_cupy.kernels import CapturedRawKernel
from warplab.plan.capture.recorder import Recorder
from warplab.plan.model import HostCall, Role

MOST_CONTENT = 2 << 30  # bytes of host data in a run
ARGUMENTS = "ARGUMENTS"  # of a file's host function


def main() -> None:
    """Do what the folder's `call` says."""
    folder = Path(sys.argv[1])
    call: OwnCall = pickle.loads((folder / "call").read_bytes())
    sys.argv = [call.file or "-"]
    random.seed(0)
    np.random.seed(0)
    listing = Listing(call.texts | _text_of(call.file))
    answer: Recorded | Failed
    try:
        answer = recorded(call, listing)
    except CaptureFailure as failure:
        answer = Failed(failure.message, *listing.origin(failure.line or 0))
    except PlanError as error:
        answer = Failed(f"What was recorded is no usable plan: {error}")
    (folder / "answer").write_bytes(cloudpickle.dumps(answer))


def _text_of(file: str) -> dict[str, str]:
    """A file's text by its name; nothing if it is no text, which its import says better."""
    try:
        return {file: Path(file).read_text(encoding="utf-8")} if file else {}
    except (OSError, UnicodeDecodeError):
        return {}


def recorded(call: OwnCall, listing: Listing) -> Recorded:
    """The call, recorded. Raises CaptureFailure."""
    recorder = Recorder(listing, (call.architecture,), MOST_CONTENT)
    recorder.takes_host_arrays, recorder.spoiled, recorder.optimises = True, call.spoiled, call.optimise
    hooks.install(recorder)
    results = HostResults(recorder)
    results.install()
    recorder.begin(HostCall(call.function or "run", ()))
    function, arguments, keywords, names = _asked(call, listing)
    recorder.host_names = {id(a): n for a, n in zip(arguments, names, strict=False) if isinstance(a, np.ndarray)}
    returned = None
    if function is not None:
        name = getattr(function, "__name__", type(function).__name__)
        returned = run_host_code(
            listing, CaptureStatus.HOST_ERROR, f"'{name}'", lambda: function(*arguments, **keywords)
        )
    described = results.described(returned)
    views = {n: view for a, n in zip(arguments, names, strict=False) if (view := results.view(a)) is not None}
    plan = recorder.plan(HostCall(call.function or "run", ()))
    buffers = {name: replace(b, role=Role.OUTPUT) for name, b in plan.buffers.items() if b.role is Role.SCRATCH}
    copies = tuple(recorder.name_of(copy) or "" for copy in recorder.copies)
    kept = {*copies, *(view.buffer for view in [*views.values(), *_views(described)])}
    plan = replace(plan, buffers={n: buffers[n] if n in kept else b for n, b in plan.buffers.items()})
    places = tuple((place, file) for file, place in listing.places.items())
    return Recorded(plan, views, described, copies, places)


def _views(value: Any) -> list[View]:
    if isinstance(value, View):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [view for item in items for view in _views(item)]


def _asked(call: OwnCall, listing: Listing) -> tuple[Callable[..., Any] | None, Sequence[Any], dict[str, Any], tuple]:
    """The function to call, with its arguments, and the names of the parameters that these are for."""
    if call.file:
        return _of_file(call, listing)
    function, arguments, keywords = run_host_code(
        listing, CaptureStatus.IMPORT_ERROR, "Making the function again", lambda: pickle.loads(call.pickled)
    )
    if call.launch is None:
        return function, arguments, keywords, call.names
    grid, block, shared = call.launch
    if not isinstance(function, CapturedRawKernel):
        return function[grid, block, 0, shared], arguments, keywords, call.names

    def launched(*values: Any) -> None:
        function(_dimensions(grid), _dimensions(block), values, shared_mem=shared)

    return launched, arguments, keywords, call.names


def _dimensions(value: Any) -> tuple:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _of_file(call: OwnCall, listing: Listing) -> tuple[Callable[..., Any] | None, Sequence[Any], dict[str, Any], tuple]:
    path = Path(call.file)
    sys.path.insert(0, str(path.parent))
    try:
        ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        place = f"line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else "it"
        words = error.msg if isinstance(error, SyntaxError) else error
        raise CaptureFailure(CaptureStatus.SYNTAX_ERROR, f"{path.name} is not Python: in {place}, {words}.") from None
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CaptureFailure(CaptureStatus.NOT_PYTHON, f"{path.name} is not a Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    run_host_code(listing, CaptureStatus.IMPORT_ERROR, path.name, spec.loader.exec_module, module)
    function = getattr(module, call.function or "main", None)
    if function is None and not call.function:
        return None, (), {}, ()  # the launches were made as the file was imported
    if not callable(function):
        raise CaptureFailure(CaptureStatus.NO_FUNCTION, f"{path.name} defines no function '{call.function}'.")
    arguments = getattr(module, ARGUMENTS, ())
    arguments = tuple(arguments) if isinstance(arguments, tuple | list) else (arguments,)
    parameters = list(inspect.signature(function).parameters.values())
    needed = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if needed and not arguments:
        raise CaptureFailure(
            CaptureStatus.ARGUMENT_MISMATCH,
            f"'{function.__name__}' takes {', '.join(needed)}: define {ARGUMENTS} = (...) in {path.name}, a tuple of "
            "what to call it with.",
        )
    return function, arguments if parameters else (), {}, tuple(p.name for p in parameters)


if __name__ == "__main__":
    main()
