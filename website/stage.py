"""Lays out the pages of the site: chapters, handouts and documents, with links that lead somewhere on it.

A link to a file of the repository that is no page leads to the repository's own address. What a chapter prints between
a question and its answer is folded, so that a reader can predict first.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from course.figures.explore import STATES
from scripts.notebooks import HAD_WIDGET, as_shown
from warplab.files import write_whole
from website import figures

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "report" / "index.html"  # of `make grade`
SITE = ROOT / "build" / "site"
EXTRA = SITE / "extra"  # pages that are there as they are
_LINK = re.compile(r"(?P<before>\]\(|^\[[^\]]+\]: )(?P<target>[^()\s:#]*)(?P<anchor>#[^()\s]*)?", re.MULTILINE)
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_PREDICTED = re.compile(r"^(?P<name>\w+) = predict\(", re.MULTILINE)
_REVEALED = re.compile(r"\breveal\((?P<name>\w+)")
_WITHOUT_KERNEL = (
    '<p class="wl-note">The controls of this figure need a kernel: open the chapter in JupyterLab to move it.</p>'
)
_HREF = re.compile(r'href="(?P<target>[^"#:]+)(?P<anchor>#[^"]*)?"')
_HOME = '<body>\n<nav><a href="../index.html">Warplab</a></nav>'
_TITLES = {"notebooks": "Chapters", "labs": "Labs"}


def pages() -> list[Path]:
    """The files that become pages, below the root, chapters first."""
    patterns = ("notebooks/*.ipynb", "labs/*/README.md", "docs/*.md", "docs/syllabi/*.md", "benchmarks/README.md")
    found = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    return [path.relative_to(ROOT) for path in (*found, ROOT / "CHANGELOG.md")]


def lay_out(folder: Path) -> None:
    """Write the site's source into `folder`. A page that is the same keeps its time, so that it is not built again.

    Raises OSError.
    """
    known = pages()
    written = {folder / "index.md"}
    for page in known:
        chapter = page.suffix == ".ipynb"
        text = as_shown(page.stem) if chapter else (ROOT / page).read_text(encoding="utf-8")
        linked = _linker(page, set(known))
        _keep(folder / page, _chapter(text, linked) if chapter else linked(text))
        written.add(folder / page)
    for image in sorted((ROOT / "docs" / "images").iterdir()):
        target = folder / image.relative_to(ROOT)
        written.add(target)
        if not target.exists() or target.read_bytes() != image.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(image.read_bytes())
    _keep(folder / "index.md", _index(known))
    if REPORTS.exists():
        _keep(EXTRA / "reports" / "index.html", _reports(REPORTS.read_text(encoding="utf-8"), set(known)))
    for path in folder.rglob("*"):
        if path.is_file() and path not in written:
            path.unlink()  # a page that is gone


def repository() -> str:
    """The repository's address on the web, of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["urls"]["Homepage"])


def _keep(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)


def _linker(page: Path, known: set[Path]) -> Callable[[str], str]:
    """What turns the links of a page's Markdown into links of the site."""
    base, home = page.parent, repository()

    def moved(link: re.Match[str]) -> str:
        anchor = link["anchor"] or ""
        target = Path(os.path.normpath(base / link["target"])) if link["target"] else page
        if target.suffix == ".ipynb" and anchor:
            # JupyterLab makes anchors of headings otherwise than Sphinx, and GitHub, do.
            anchor = "#" + re.sub(r"[^\w-]", "", anchor.lower())
        if not link["target"] or target in known:
            return f"{link['before']}{link['target']}{anchor}"
        if link["target"].startswith(("/", "<")) or "docs/images" in target.as_posix():
            return link[0]
        if (readme := target / "README.md") in known:
            return f"{link['before']}{os.path.relpath(readme, base)}{anchor}"
        if not (ROOT / target).exists():
            return link[0]  # Sphinx says that it leads nowhere
        kind = "tree" if (ROOT / target).is_dir() else "blob"
        return f"{link['before']}{home}/{kind}/main/{target.as_posix()}{anchor}"

    return lambda text: _LINK.sub(moved, text)


def _reports(text: str, known: set[Path]) -> str:
    """The page of reports with a way back, and with links that lead to pages of the site or to the repository."""

    def moved(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(REPORTS.parent / link["target"])).relative_to(ROOT)
        page = os.path.relpath(target.with_suffix(".html"), "reports")
        place = page if target in known else f"{repository()}/blob/main/{target.as_posix()}"
        return f'href="{place}{link["anchor"] or ""}"'

    return _HREF.sub(moved, text).replace("<body>", _HOME, 1)


def _chapter(text: str, linked: Callable[[str], str]) -> str:
    notebook = json.loads(text)
    open_questions: set[str] = set()
    heading = ""
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            cell["source"] = linked(source)
            heading = next(reversed(_HEADING.findall(source)), heading)
            continue
        tags = cell["metadata"].setdefault("tags", [])
        if cell["metadata"].get("jupyter", {}).get("source_hidden"):
            tags.append("hide-input")
        answers = set(_REVEALED.findall(source))
        folded = answers and all(_folds(output) for output in cell["outputs"])
        if (open_questions or answers) and not folded and not _PREDICTED.search(source):
            tags.append("hide-output")
        open_questions |= set(_PREDICTED.findall(source))
        open_questions -= answers
        pictures = [output["data"] for output in cell["outputs"] if "image/png" in output.get("data", {})]
        alt = ""
        if pictures:
            words = " ".join("".join(pictures[0].get("text/plain", "")).split())
            # Of a figure that says nothing itself the section is known.
            alt = words if words.startswith("Figure: ") else f"Figure of the section {heading}"
            cell["metadata"]["mystnb"] = {"image": {"alt": alt}}
        cell["outputs"] = [placed for output in cell["outputs"] for placed in _placed(output, linked, alt)]
    return json.dumps(notebook, indent=1)


def _folds(output: dict[str, Any]) -> bool:
    """Whether it is an answer that `course.answer` has folded itself."""
    return "".join(output.get("data", {}).get("text/markdown", "")).startswith("<details>")


def _placed(output: dict[str, Any], linked: Callable[[str], str], alt: str) -> list[dict[str, Any]]:
    """The output as the site has it, and perhaps a note below it."""
    shown = output.get("data", {})
    if states := shown.pop(STATES, None):
        return [_html(figures.moving(states, alt, EXTRA / "figures", "../figures/"))]
    if "text/markdown" in shown:
        shown["text/markdown"] = linked("".join(shown["text/markdown"]))
    if "image/png" not in shown:
        return [output]
    shown["image/png"] = figures.small("".join(shown["image/png"]))
    return [output, _html(_WITHOUT_KERNEL)] if output["metadata"].get(HAD_WIDGET) else [output]


def _html(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": {"text/html": text}}


def _index(known: list[Path]) -> str:
    """The front page, with what the side bar shows."""
    words = _linker(Path("index.md"), set(known))((ROOT / "website" / "index.md").read_text(encoding="utf-8"))
    parts = [_contents(_TITLES[folder], (p for p in known if p.parts[0] == folder)) for folder in _TITLES]
    sections = re.split(r"^## ", (ROOT / "docs" / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    placed = {Path("docs/README.md")}
    for section in sections:
        title, _, text = section.partition("\n")
        listed = [Path("docs") / name for name in re.findall(r"[(`]([\w-]+\.md)[)`]", text)]
        mine = [page for page in listed if page in known and page not in placed]
        placed.update(mine)
        parts.append(_contents(title.partition(":")[0], mine))
    rest = [page for page in known if page.parts[0] not in _TITLES and page not in placed]
    return "\n\n".join((words.rstrip(), *parts, _contents("Records and plans", rest))) + "\n"


def _contents(title: str, listed: Iterator[Path] | list[Path]) -> str:
    rows = "\n".join(page.with_suffix("").as_posix() for page in listed)
    return f"```{{toctree}}\n:caption: {title}\n:hidden:\n:maxdepth: 1\n\n{rows}\n```"
