"""The planner against published training runs: how far off it is, and where its constants come from."""

from statistics import median

import pytest

from systems.parallel.calibration import PRODUCTS
from systems.parallel.layout import Recompute
from systems.parallel.runs import fitted, read_runs, runs, without
from systems.parallel.shapes import LayoutError

RUNS = {run.name: run for run in runs()}


def test_the_median_error_of_runs_that_nothing_was_fitted_to_is_within_a_tenth() -> None:
    held_out = [abs(run.error) for run in runs() if not run.fit]
    assert len(held_out) >= 30 and len({run.title for run in runs() if not run.fit}) >= 7
    assert median(held_out) < 0.095
    assert median(abs(run.error) for run in runs()) < 0.09


@pytest.mark.parametrize("generation", PRODUCTS)
def test_constants_are_those_of_the_fit(generation: str) -> None:
    chosen = tuple(run for run in runs() if run.fit and run.machine.generation == generation)
    assert len(chosen) == 4 and len({run.title for run in chosen}) == 1
    assert PRODUCTS[generation] == pytest.approx(fitted(chosen), abs=0.005)


def test_leaving_a_run_out_of_the_fit_moves_it_little() -> None:
    """The two widest models and the two smallest ones pull against each other: the small ones are far off."""
    errors = [abs(without(run) / run.published - 1) for run in runs() if run.fit]
    assert median(errors) < 0.10 and max(errors) < 0.22


@pytest.mark.parametrize(
    ("name", "mfu", "off"),
    [
        ("Megatron-LM 2022, 22B", 0.415, 0.003),  # Table 5 of arXiv:2205.05198
        ("Megatron-LM 2022, 175B", 0.514, 0.001),
        ("Megatron-LM 2022, 530B", 0.560, 0.001),
        ("Megatron-LM 2022, 1T", 0.563, 0.001),
        ("Megatron-LM 2022, 530B on 2240", 0.542, 0.001),  # section 6.3
        ("MT-NLG 530B on 2240", 0.302, 0.001),  # PaLM, section 4.1, counts it so
        ("Llama 3 405B on 8192", 0.43, 0.006),  # Table 4
        ("Megatron-LM by MegaScale, 175B on 12288", 0.412, 0.002),  # Table 2
        ("Nemotron-4 15B on 768", 0.343, 0.003),  # Table 2
        ("Megatron-Core 2024, 462B", 0.47, 0.006),
    ],
)
def test_published_utilisation_is_what_its_document_prints(name: str, mfu: float, off: float) -> None:
    """Seconds, FLOP/s and our count of FLOP give the MFU that the authors themselves give."""
    assert RUNS[name].published == pytest.approx(mfu, abs=off)


def test_recomputation_counted_or_not_gives_the_same_speed() -> None:
    """Narayanan et al. 2021, equation 3: 530B on 2240 GPUs at 159 TFLOP/s with recomputation is 0.75 of it without."""
    run = RUNS["Megatron-LM 2021, 530B on 2240"]
    assert run.layout.recompute is Recompute.FULL
    assert run.published == pytest.approx(159 / 312 * 0.75, rel=0.005)


def test_documents_that_say_nothing_are_said_so() -> None:
    assert RUNS["MT-NLG 530B on 2240"].assumed == ("micro_batch", "chunks")
    assert RUNS["Megatron-LM 2022, 175B"].assumed == ()
    assert all(run.url.startswith("https://") and run.place for run in runs())


def test_a_damaged_file_is_said_in_a_sentence(tmp_path) -> None:
    path = tmp_path / "runs.toml"
    text = '[documents.a]\ntitle = "A"\nurl = "https://a"\n[[runs]]\nname = "r"\ndocument = "a"\nplace = "p"\n'
    row = text + 'machine = "DGX A100, HDR"\nbatch = 8\nsequence = 128\nlayout = { data = 8 }\n'
    shape = "gpt = { layers = 2, hidden = 64, heads = 1, vocabulary = 100 }\n"
    for end, sentence in (
        (shape, "needs exactly one of"),
        ("seconds = 1\n", "either a model or a gpt"),
        (shape + "seconds = -1\n", "not as it should be"),
        (shape + 'seconds = 1\nprecision = "fp3"\n', "does not exist"),
    ):
        path.write_text(row + end)
        with pytest.raises(LayoutError, match=sentence):
            read_runs(path)
    path.write_text(row + shape + "seconds = 1\n")
    assert len(read_runs(path)) == 1
