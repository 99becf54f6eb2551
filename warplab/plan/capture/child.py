"""The capture process: imports a submission, calls its host function with captured arrays, answers with plans.

It runs untrusted code, so nothing that it answers is trusted; see `capture` for how it is started and bounded.
The answer goes to what was standard output; the submission's own prints go to standard error.
"""

from __future__ import annotations

import gc
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from warplab.errors import PlanError
from warplab.plan.capture import hooks, operator_table
from warplab.plan.capture.attacked import attack, load_judge
from warplab.plan.capture.failure import CaptureFailure, CaptureStatus
from warplab.plan.capture.host_slips import host_slip
from warplab.plan.capture.program_step import step_of
from warplab.plan.capture.protocol import (
    READY,
    SOURCE_NAME,
    Request,
    decode_request,
    encode_failure,
    encode_plans,
    encode_records,
)
from warplab.plan.capture.recorder import Recorder
from warplab.plan.capture.records import RecordForm, to_json
from warplab.plan.capture.source import Source
from warplab.plan.capture.syntax_slips import syntax_slip
from warplab.plan.model import ArrayArgument, HostCall, Plan, ScalarArgument
from warplab.sandbox import confinement
from warplab.sandbox.confinement import Limits
from warplab.sandbox.system_calls import Role

MODULE = "submission"
# Bytes of address space; two run side by side. Lab 10's reference for all sizes takes more than 1 GiB on 16 cores.
MEMORY = 2 << 30
FILE_SIZE = 64 << 20  # bytes of one file
_NO_TORCH = re.compile(r"Torch not compiled with CUDA|No CUDA GPUs are available|Found no NVIDIA driver")
_PATH = re.compile(r" ?\((?:/|[A-Za-z]:\\)[^)]*\)")  # where a module was found is of no use to a student


def main() -> NoReturn:
    """Read a request from standard input, write the answer to standard output, exit."""
    carry_out(decode_request(sys.stdin.buffer.read()))


def carry_out(request: Request) -> NoReturn:
    """Do what a request asks, write the answer to standard output, exit."""
    gc.disable()  # this process ends in seconds; looking for garbage takes a tenth of a compilation
    answer = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(answer, False)
    path = Path.cwd() / SOURCE_NAME
    path.write_text(request.source, encoding="utf-8", errors="surrogatepass")
    _confine(request)
    os.write(answer, READY)
    sys.argv = [SOURCE_NAME]
    try:
        if request.records:
            data = encode_records(records_here(request, request.records, str(path)))
        else:
            data = encode_plans(capture_here(request, str(path)))
    except CaptureFailure as failure:
        data = encode_failure(failure)
    except PlanError as error:
        message = f"What the host code recorded is no usable plan: {error}"
        data = encode_failure(CaptureFailure(CaptureStatus.UNSUPPORTED, message))
    except MemoryError:
        data = encode_failure(CaptureFailure(CaptureStatus.RESOURCES, "The submission needs too much memory."))
    with os.fdopen(answer, "wb") as f:
        f.write(data)
    sys.stderr.flush()
    # Threads and exit handlers of the submission have no say in when the process ends.
    os._exit(0)


def _confine(request: Request) -> None:
    """Give up what a submission must not have; before any line of it runs."""
    confinement.limit_resources(Limits(MEMORY, request.seconds, FILE_SIZE))
    confinement.give_up_privileges()
    if request.readable is not None:
        readable = [*request.readable.paths, str(Path.cwd())]
        if not confinement.hide_files(readable, [os.devnull], request.readable.listed):
            sys.exit("this kernel has no Landlock")
    confinement.allow_system_calls(Role.CAPTURE)


def capture_here(request: Request, path: str) -> list[Plan]:
    """The plans of all calls, captured in this process from the file at `path`. Raises CaptureFailure."""
    source = _parse(request, path)
    recorder = Recorder(source, request.architectures)
    hooks.install(recorder)
    module = _import(source, request.name)
    plans = []
    for call in request.calls:
        function = _function(module, call, request.name)
        arguments = recorder.begin(call)
        run_host_code(source, CaptureStatus.HOST_ERROR, f"'{call.function}'", function, *arguments)
        plans.append(recorder.plan(call))
    return plans


def records_here(request: Request, form: RecordForm, path: str) -> list[bytes]:
    """What each call returns, records of the form as JSON. Raises CaptureFailure."""
    source = _parse(request, path)
    judges = [load_judge(content) for content in request.contents] if form is RecordForm.ATTACKS else []
    module = _import(source, request.name)
    answers: list[bytes] = []
    for call in request.calls:
        function = _function(module, call, request.name)
        what = f"'{call.function}'"
        if form is RecordForm.STEPS:
            content = request.contents[len(answers)]
            answers.append(
                run_host_code(source, CaptureStatus.HOST_ERROR, what, step_of, function, call, content, what)
            )
            continue
        if form is RecordForm.ATTACKS:
            place = len(answers)
            told = judges[place], function, request.contents[place]
            answers.append(run_host_code(source, CaptureStatus.HOST_ERROR, what, attack, *told))
            continue
        arguments: list[Any] = [a.value for a in call.arguments if isinstance(a, ScalarArgument)]
        if form is RecordForm.KEPT:  # the first argument is a table, and the call has the number of its rows
            arguments[0] = operator_table.decode(request.contents[len(answers)])
        # what is returned may be a generator, and its numbers of the submission's own making: its code runs here too
        answers.append(
            run_host_code(
                source,
                CaptureStatus.HOST_ERROR,
                what,
                lambda f, a, w: to_json(f(*a), form, w),
                function,
                arguments,
                what,
            )
        )
    return answers


def _parse(request: Request, path: str) -> Source:
    try:
        return Source(request.source, path, SOURCE_NAME)
    except SyntaxError as error:
        line, words = syntax_slip(error, request.source)
        original = f"{error.msg} (line {error.lineno})" if words else ""
        message = words or f"{request.name} is not valid Python: {error.msg}."
        raise CaptureFailure(CaptureStatus.SYNTAX_ERROR, message, line, original) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise CaptureFailure(CaptureStatus.NOT_PYTHON, f"{request.name} is not Python: {error}.") from None


def _import(source: Source, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(MODULE, source.path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    run_host_code(source, CaptureStatus.IMPORT_ERROR, name, spec.loader.exec_module, module)
    return module


def _function(module: ModuleType, call: HostCall, name: str) -> Callable[..., Any]:
    function = getattr(module, call.function, None)
    if function is None:
        raise CaptureFailure(CaptureStatus.NO_FUNCTION, f"{name} defines no function '{call.function}'.")
    arguments = ", ".join(a.name for a in call.arguments)
    if not inspect.isfunction(function):
        does = " that launches your kernel" if any(isinstance(a, ArrayArgument) for a in call.arguments) else ""
        raise CaptureFailure(
            CaptureStatus.NO_FUNCTION,
            f"'{call.function}' is a {type(function).__name__}, not a host function: write a plain function "
            f"{call.function}({arguments}){does}.",
        )
    try:
        inspect.signature(function).bind(*call.arguments)
    except TypeError:
        raise CaptureFailure(
            CaptureStatus.ARGUMENT_MISMATCH,
            f"'{call.function}' must take {len(call.arguments)} arguments: {call.function}({arguments}).",
            function.__code__.co_firstlineno,
        ) from None
    return function


def run_host_code(source: Source, status: CaptureStatus, what: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call the submission's code; whatever it raises becomes a CaptureFailure with the submission's line."""
    try:
        return function(*args)
    except CaptureFailure as failure:
        line = failure.line or source.failing_line(failure.__traceback__)
        raise CaptureFailure(failure.status, failure.message, line, failure.original) from None
    except MemoryError as error:
        raise CaptureFailure(
            CaptureStatus.RESOURCES, f"{what} needs too much memory.", source.failing_line(error.__traceback__)
        ) from None
    except SystemExit as error:
        raise CaptureFailure(
            status, f"{what} ends the program: remove the call of exit().", source.failing_line(error.__traceback__)
        ) from None
    except BaseException as error:
        line, said = source.failing_line(error.__traceback__), _sentence(what, error)
        if slip := _slip(error, source.line_text(line)):
            raise CaptureFailure(status, slip, line, said) from None
        raise CaptureFailure(status, said, line) from None


def _slip(error: BaseException, line: str) -> str:
    """What a slip is, as a sentence; empty if it is none that is known."""
    try:
        words = host_slip(error, line)
    except Exception:  # an exception class of the submission may fail in its own __str__
        return ""
    return f"{words}{'?' if 'did you mean' in words else '.'}" if words else ""


def _sentence(what: str, error: BaseException) -> str:
    try:
        text = str(error).strip().split("\n")[0][:500]
    except Exception:  # an exception class of the submission may fail in its own __str__
        text = ""
    if isinstance(error, ModuleNotFoundError):
        return f"{what} imports '{error.name}', which is not available here: use numpy, numba, cupy and math."
    if isinstance(error, RecursionError):
        return f"{what} calls itself without end."
    if _NO_TORCH.search(text):
        return f"{what} puts a PyTorch tensor on the GPU: use cuda.to_device(tensor.numpy()) or cupy.asarray(...)."
    text = _PATH.sub("", text)
    kind = type(error).__name__
    return f"{what} raises {kind}: {text.rstrip('.')}." if text else f"{what} raises {kind}."
