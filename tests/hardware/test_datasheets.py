"""A file of data/ that is no datasheet is refused in one sentence with its name; every file there is used."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from warplab import hardware
from warplab.hardware import CHIPS, chips, tpus
from warplab.hardware.chips import H200
from warplab.hardware.datasheets import DatasheetError, read_chip, read_tpu
from warplab.hardware.records import DATA

ROOT = Path(__file__).resolve().parents[2]
GUIDE = "NVIDIA CUDA C++ Programming Guide"


def changed(tmp_path: Path, name: str, old: str, new: str) -> Path:
    """A copy of a file of data/ in which the one line that is `old`, but for a comment, is `new`."""
    text, count = re.subn(rf"^{re.escape(old)}(  #.*)?$", lambda _: new, (DATA / name).read_text(), flags=re.MULTILINE)
    assert count == 1, old
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("tdp = 700", "tdp = 700\ntpd = 700", "unknown field `tpd`"),
        ("fp32 = 67", "fp32 = 67\nfp23 = 67", "'fp23' is no kind of arithmetic"),
        ("tdp = 700", "", "required field `tdp`"),
        ("tdp = 700", "tdp = -700", ">= 1"),
        ("bandwidth = 4800.0", "bandwidth = 0.0", "> 0"),
        ("bandwidth = 4800.0", "bandwidth = nan", "> 0"),
        ("bandwidth = 4800.0", "bandwidth = inf", "<= 1.79"),
        ("fp32 = 67", "fp32 = -67.0", "> 0"),
        ("fp32 = 67", "fp32 = nan", "> 0"),
        ("sms = 132", "sms = true", "Expected `int`, got `bool`"),
        ("sms = 132", "sms = 132.5", "Expected `int`"),
        ("fp32 = 67", 'fp32 = "67"', "got `str`"),
        ('fields = ["tensor_clock"]', 'fields = ["tdp"]', "no source says where 'tensor_clock' was read"),
        (
            'fields = ["tensor_clock"]',
            'fields = ["tensor_clock", "clock"]',
            "a source names 'clock', which has no figure",
        ),
        ('fields = ["fp64", "fp64_tensor"]', 'fields = ["fp4_tensor"]', "a source names 'fp4_tensor', which has no"),
        ('fields = ["tensor_clock"]', "fields = []", "length >= 1"),
        ('memory_type = "HBM3e"', 'memory_type = ""', "length >= 1"),
        ("sms = 132", "sms =", "Invalid value"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(DatasheetError) as caught:
        read_chip(changed(tmp_path, "h200.toml", old, new))
    message = str(caught.value)
    assert "h200.toml is not a valid datasheet: " in message and says in message
    assert message.endswith(".") and "\n" not in message


def test_a_chip_without_sources_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "h200.toml"
    path.write_text((DATA / "h200.toml").read_text().split("[[sources]]")[0])
    with pytest.raises(DatasheetError, match="h200.toml is not a valid datasheet: .*required field `sources`"):
        read_chip(path)


@pytest.mark.parametrize(
    "old, new, says",
    [("bf16 = 2307", "bf16 = -2307", ">= 1"), ("ici = 1200", "ici = 1200\nnvlink = 1", "unknown field `nvlink`")],
)
def test_a_wrong_tpu_is_refused_by_name(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(DatasheetError, match=f"tpu7x.toml is not a valid datasheet: .*{says}"):
        read_tpu(changed(tmp_path, "tpu7x.toml", old, new))


def test_a_tpu_without_source_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tpu7x.toml"
    path.write_text((DATA / "tpu7x.toml").read_text().split("source =")[0])
    with pytest.raises(DatasheetError, match="tpu7x.toml is not a valid datasheet: .*required field `source`"):
        read_tpu(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatasheetError, match=r"h300.toml cannot be read \(No such file or directory\)\.$"):
        read_chip(tmp_path / "h300.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(DatasheetError, match="latin.toml is not a valid datasheet: "):
        read_chip(tmp_path / "latin.toml")


def test_every_file_is_read_under_its_name_and_once() -> None:
    files = {path.stem: path for path in DATA.iterdir()}
    names = {name.lower(): name for name in (*chips._NAMES, *tpus._NAMES)}
    assert files.keys() == names.keys() and {path.suffix for path in files.values()} == {".toml"}
    assert tuple(getattr(chips, name) for name in chips._NAMES) == CHIPS and CHIPS is chips.CHIPS
    assert tuple(getattr(tpus, name) for name in tpus._NAMES) == tpus.TPUS
    assert chips.H200 is H200 and {*chips._NAMES, "CHIPS"} <= set(dir(chips))
    for module in (hardware, chips, tpus):
        with pytest.raises(AttributeError, match="has no attribute 'H300'"):
            module.H300  # noqa: B018


def test_figures_are_in_the_units_that_the_records_promise() -> None:
    assert (H200.memory, H200.bandwidth, H200.nvlink) == (141_000_000_000, 4.8e12, 900e9)
    assert (H200.shared_per_sm, H200.l2, H200.tdp) == (228 * 1024, 60 * 1024 * 1024, 700)
    assert (H200.boost_clock, H200.peaks[hardware.Math.FP16_TENSOR]) == (1980e6, 989.5e12)
    assert tpus.TPU_V5P.memory == 95 * 2**30


def test_what_depends_on_the_compute_capability_alone_has_one_source() -> None:
    guide = [source for chip in CHIPS for source in chip.sources if source.document.startswith(GUIDE)]
    assert len(guide) == len(CHIPS) and len(set(guide)) == 1


@pytest.mark.processes
def test_importing_the_package_reads_no_datasheet() -> None:
    code = "import sys, warplab.hardware; print('warplab.hardware.datasheets' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_the_files_are_installed_with_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "data/*.toml" in project["tool"]["setuptools"]["package-data"]["warplab.hardware"]
