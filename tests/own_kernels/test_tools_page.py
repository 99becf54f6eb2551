"""docs/tools.md: its kernel does on the emulator what the page says, and its solution has neither fault."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import warplab
from corpus.tools import row_sums
from course.loading import module_of
from course.results import DIRECTORY, read
from warplab.plan.execution import FindingKind

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")
TEXT = Path(row_sums.__file__).read_text(encoding="utf-8")
pytestmark = pytest.mark.processes


def test_the_emulator_says_what_the_page_says() -> None:
    result = warplab.run(row_sums.main)
    race = next(f for f in result.findings if f.kind is FindingKind.RACE)
    assert {"18", "21"} <= set(re.findall(r"\d+", race.message)) and "put __syncthreads() between" in race.message
    records = read(DIRECTORY / "tools.json")
    for name in ("global_load_requests", "global_load_sectors", "global_store_sectors", "shared_store_wavefronts"):
        counted = records.find(name, "count").value
        assert getattr(result.execution.total, name) == counted
        assert f"{counted:,}" in PAGE or name == "global_store_sectors"


def test_the_solution_has_neither_fault(tmp_path: Path) -> None:
    loop, rest = re.search(r"<details>.*?```c\n(.*?sum \+= row\[k\];\n)(.*?)```", PAGE, re.S).groups()
    first = TEXT.index("    int own = "), TEXT.index("    float sum")
    text = TEXT[: first[0]] + TEXT[first[1] :]
    begin, end = text.index("    for (int k = 0"), text.index("    for (int half")
    solved = module(tmp_path / "solved.py", text[:begin] + loop + rest + text[end:])
    result = warplab.run(solved.main)
    assert result.findings == () and result.execution.total.global_load_sectors == 524_288
    assert set(result.returned.tolist()) == {4096.0}


def module(path: Path, text: str) -> ModuleType:
    path.write_text(text, encoding="utf-8")
    return module_of(path)
