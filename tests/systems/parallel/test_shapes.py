"""Parameters and FLOP of published shapes against the figures that their documents give."""

import pytest

from systems.parallel.models import _File as ModelsFile
from systems.parallel.models import all_models, find_model, read
from systems.parallel.shapes import Experts, LayoutError, Model, gpt


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("GPT-3 175B", 174.6),  # Narayanan et al. 2021, Table 2
        ("MT-NLG 530B", 529.6),  # the same
        ("Llama 3 8B", 8.03),  # the released weights, of which the name is rounded
        ("Llama 3 70B", 70.55),
        ("Llama 3 405B", 405.8),
        ("Nemotron-4 15B", 15.7),  # 12.5 and two tables of 1.6: its section 2 has 3.2
        ("DeepSeek-V3", 671),  # abstract
        ("Qwen3 30B-A3B", 30.5),  # its model card
    ],
)
def test_parameters_are_those_published(name: str, billions: float) -> None:
    assert find_model(name).parameters / 1e9 == pytest.approx(billions, rel=5e-3)


def test_a_token_of_deepseek_meets_37_billion() -> None:
    """The abstract's 37 B counts both tables; a product is made with one of them only."""
    model = find_model("DeepSeek-V3")
    assert (model.active_parameters + model.embedding_parameters) / 1e9 == pytest.approx(37.5, rel=0.02)


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "billions"),
    [(24, 2304, 24, 1.7), (40, 6144, 48, 18.4), (80, 12288, 96, 145.6), (128, 25600, 160, 1008.0)],
)
def test_a_gpt_has_as_many_as_the_table_of_megatron_lm(layers: int, hidden: int, heads: int, billions: float) -> None:
    """Narayanan et al. 2021, Table 1; it counts positions and biases, too."""
    assert gpt("x", layers, hidden, heads, 51200).parameters / 1e9 == pytest.approx(billions, rel=0.01, abs=0.06)


@pytest.mark.parametrize(("layers", "hidden", "heads"), [(48, 6144, 64), (105, 20480, 128)])
def test_step_flops_are_korthikantis_formula(layers: int, hidden: int, heads: int) -> None:
    """72 B s L h^2 (1 + s / 6h + V / 12hL), appendix A of arXiv:2205.05198."""
    batch, s, v = 4, 2048, 51200
    formula = 72 * batch * s * layers * hidden**2 * (1 + s / (6 * hidden) + v / (12 * hidden * layers))
    assert gpt("x", layers, hidden, heads, v).step_flops(batch * s, s) == pytest.approx(formula, rel=1e-12)


def test_the_mask_halves_attention_alone() -> None:
    model = find_model("Llama 3 8B")
    whole, half = model.step_flops(1, 8192), model.step_flops(1, 8192, causal=True)
    assert whole - half == pytest.approx(3 * 32 * 2 * 8192 * 4096)
    assert half > 6 * model.active_parameters


def test_grouped_queries_have_fewer_keys_and_values() -> None:
    model = find_model("Llama 3 70B")
    assert model.key_value_width == 2 * 8 * 128
    assert model.attention_parameters == 8192 * (8192 + 2048) + 8192 * 8192


def test_sizes_that_cannot_be_are_said_in_a_sentence() -> None:
    with pytest.raises(LayoutError, match="cannot share"):
        Model("odd", 2, 64, 128, 6, 4, 100)
    with pytest.raises(LayoutError, match="cannot go to 5 of 4"):
        Model("few", 2, 64, 128, 4, 4, 100, experts=Experts(4, 5, 64))
    with pytest.raises(LayoutError, match="size below 1"):
        gpt("none", 0, 64, 4, 100)
    with pytest.raises(LayoutError, match="no model named 'GPT-5'"):
        find_model("GPT-5")


def test_every_model_has_its_source() -> None:
    assert all(model.source for model in all_models())


def test_a_damaged_file_is_named(tmp_path) -> None:
    path = tmp_path / "models.toml"
    path.write_text('[[models]]\nname = "x"\nlayers = -1\n')
    with pytest.raises(LayoutError, match=r"models\.toml is not as it should be"):
        read(path, ModelsFile)
    with pytest.raises(LayoutError, match="cannot be read"):
        read(tmp_path / "none.toml", ModelsFile)
