"""Where things stand in a submission: lines of definitions, of launches, and of CUDA C++ kept in string literals."""

from __future__ import annotations

import ast
import re
import sys
from types import CodeType, TracebackType

from warplab.isa.entry import rename_files


class Source:
    """A submission's text with the questions that capture asks of it.

    `path` is where the text lies while it is captured, `name` what it is called in plans and messages.
    Raises SyntaxError, as `ast.parse` does.
    """

    def __init__(self, text: str, path: str, name: str) -> None:
        self.path = path
        self.name = name
        self.replace_text(text)

    def replace_text(self, text: str, python: str | None = None) -> None:
        """Make this the text; `python` is the same without lines that are no Python."""
        self.text = text
        self._lines = text.splitlines()
        self._tree = ast.parse(text if python is None else python, filename=self.path)

    def line_in(self, file: str, line: int) -> int | None:
        """The line of this text that a line of a file is, which a compiler or a frame names; None for other files."""
        return line if file == self.path or file.rsplit("/", 1)[-1] == self.path.rsplit("/", 1)[-1] else None

    def ours(self, ptx: str) -> str:
        """A compiler's PTX whose lines of the submission are said to be of `name`, and those of others of no folder."""
        return rename_files(ptx, self.path, self.name)

    def definition_line(self, code: CodeType) -> int:
        """The line of the `def` of a function; its code object starts at its first decorator."""
        first = self.line_in(code.co_filename, code.co_firstlineno) or 0
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                if start <= first <= node.lineno:
                    return node.lineno
        return first

    @property
    def lines(self) -> list[str]:
        """The text's lines."""
        return self._lines

    def line_text(self, line: int | None) -> str:
        """A line, counted from 1; empty for one that there is not."""
        return self._lines[line - 1] if line and line <= len(self._lines) else ""

    def function_at(self, line: int) -> ast.FunctionDef | None:
        """The innermost function that has a line."""
        around = [
            node
            for node in ast.walk(self._tree)
            if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or node.lineno)
        ]
        return max(around, key=lambda node: node.lineno, default=None)

    def calling_line(self) -> int:
        """The line of the submission that is being executed now; 0 if none is."""
        frame = sys._getframe(1)
        while frame is not None:
            if line := self.line_in(frame.f_code.co_filename, frame.f_lineno):
                return line
            frame = frame.f_back  # type: ignore[assignment]
        return 0

    def failing_line(self, traceback: TracebackType | None) -> int | None:
        """The innermost line of the submission in a traceback."""
        line = None
        while traceback is not None:
            line = self.line_in(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno) or line
            traceback = traceback.tb_next
        return line

    def literal_line(self, code: str) -> int | None:
        """The line where the string `code` starts in the submission, or None.

        Text that a submission made from a literal, by replace() or in an f-string, still has the literal's lines: the
        literal of the same number of lines that shares most of them is taken, if it shares at least half.
        """
        wanted = code.split("\n")
        best: tuple[float, int] | None = None
        for node in ast.walk(self._tree):
            if not isinstance(node, ast.JoinedStr | ast.Constant):
                continue
            if isinstance(node, ast.Constant) and not isinstance(node.value, str):
                continue
            first, last = node.lineno, node.end_lineno or node.lineno
            if last - first + 1 != len(wanted):
                continue
            if isinstance(node, ast.Constant) and node.value == code:
                return first
            share = self._shared_lines(first, wanted)
            if share >= 0.5 and (best is None or share > best[0]):
                best = (share, first)
        return best[1] if best else None

    def _shared_lines(self, first: int, wanted: list[str]) -> float:
        if len(wanted) < 3:
            return 0.0
        inner = list(zip(self._lines[first : first + len(wanted) - 2], wanted[1:-1], strict=False))
        meaningful = [(a, b) for a, b in inner if b.strip()]
        return sum(a == b for a, b in meaningful) / len(meaningful) if meaningful else 0.0


_COMMENT = re.compile(r"//[^\n]*+|/\*.*?(?:\*/|\Z)", re.DOTALL)
_LAST_NAME = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\s*+(?:\[\s*+\w*+\s*+\]\s*+)*+$")


def cuda_parameters(code: str, kernel: str) -> tuple[list[str], int]:
    """Names of the parameters of a `__global__` function and its line within `code`, counted from 0.

    A reading of the declaration's text, good for naming arguments in messages; empty when it is not understood.
    """
    blank = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), code)
    for m in re.finditer(rf"\b{re.escape(kernel)}\s*+\(", blank):
        head = blank[: m.start()]
        declaration = head[max(head.rfind(";"), head.rfind("}"), head.rfind("#")) + 1 :]
        if "__global__" not in declaration:
            continue
        pieces = _split_arguments(blank[m.end() :])
        names = [n.group(1) for piece in pieces if (n := _LAST_NAME.search(piece.split("=")[0].strip()))]
        if len(names) != len(pieces):
            names = []
        return names, blank.count("\n", 0, m.start())
    return [], 0


def _split_arguments(text: str) -> list[str]:
    """The pieces between the top-level commas, up to the bracket that closes the list."""
    depth, start = 0, 0
    pieces: list[str] = []
    for i, c in enumerate(text):
        if c in "([{<":
            depth += 1
        elif c in ")]}>":
            if depth == 0:
                pieces.append(text[start:i])
                break
            depth -= 1
        elif c == "," and depth == 0:
            pieces.append(text[start:i])
            start = i + 1
    return [] if pieces == [""] or (len(pieces) == 1 and pieces[0].strip() in ("", "void")) else pieces
