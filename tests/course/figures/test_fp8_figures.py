"""The pictures of notebook 09 say what is so: bits against NumPy's, errors against rounding, turns against rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.figures.promotion import Promotion, explore_promotion, promotion
from course.figures.small_floats import (
    explore_number_line,
    explore_rounding,
    number_line,
    rounding,
    rounding_error,
    worst_error,
)
from warplab.hardware.small_floats import E2M1, E4M3, E5M2


def said(figure) -> str:
    return "\n".join([text.get_text() for text in figure.texts] + [t.get_text() for a in figure.axes for t in a.texts])


class TestSmallFloats:
    @pytest.mark.parametrize(("number", "finite"), [(E4M3, 254), (E5M2, 248), (E2M1, 16)])
    def test_every_value_has_a_line(self, number, finite) -> None:
        figure = number_line(number)
        whole, around, logarithmic = figure.axes
        drawn = [sorted(segment[0][0] for segment in axes.collections[0].get_segments()) for axes in figure.axes]
        assert len(drawn[0]) == finite and drawn[0][-1] == number.largest
        assert drawn[1] == [x for x in drawn[0] if abs(x) <= 4 * number.smallest_normal]
        assert drawn[2] == number.magnitudes[1:].tolist()
        assert f"{finite} finite codes" in said(figure)

    def test_subnormals_have_a_colour_of_their_own(self) -> None:
        lines = number_line(E4M3).axes[2].collections[0]
        colours = [tuple(colour) for colour in lines.get_colors()]
        assert len(set(colours[:7])) == 1 and not set(colours[:7]) & set(colours[7:])

    def test_bits_are_those_of_float16_cut_short(self) -> None:
        """e5m2 is the upper byte of float16, so NumPy knows the bits."""
        for x in (1.0, -0.3, 57344.0, 2.0**-16, -1.75e-3):
            byte = int(np.float16(E5M2.rounded(x)).view(np.uint16)) >> 8
            boxes = rounding(x, E5M2).axes[0]
            assert [text.get_text() for text in boxes.texts[:8]] == list(f"{byte:08b}")
            assert f"code 0x{byte:02X}" in said(rounding(x, E5M2))

    def test_says_error_and_derivation(self) -> None:
        usual = said(rounding(0.3, E4M3))
        assert "0.3 becomes 0.3125, +4.17%\nexponent field 5, bias 7: (1 + 2/8) x 2^(5 - 7)" in usual
        assert "subnormal: -(0 + 3/8) x 2^-6" in said(rounding(-0.0059, E4M3))
        assert "1000 becomes 448" in said(rounding(1000, E4M3))
        assert "1000 becomes nan" in said(rounding(1000, E4M3, saturate=False))
        assert "becomes inf" in said(rounding(1e9, E5M2, saturate=False))
        assert "0 becomes 0\n" in said(rounding(0.0, E4M3))

    @given(st.floats(2**-12, 2**12), st.sampled_from([E4M3, E5M2, E2M1]))
    def test_no_error_is_worse_than_the_curve(self, x: float, number) -> None:
        assert abs(number.rounded(x) / x - 1) <= worst_error(np.array([x]), number)[0] * (1 + 1e-12)

    @pytest.mark.parametrize("number", [E4M3, E5M2])
    def test_the_curve_is_reached(self, number) -> None:
        middles = (number.magnitudes[1:] + number.magnitudes[:-1])[1:] / 2
        reached = np.abs(number.rounded(middles) / middles - 1)
        np.testing.assert_allclose(reached, worst_error(middles, number))
        assert len(rounding_error(E4M3, E5M2).axes[0].lines) >= 2

    def test_explorer_takes_any_number_and_refuses_what_has_no_code(self) -> None:
        explorer = explore_rounding()
        explorer.controls["number"].value = 1000.0
        assert explorer.image.value[:4] == b"\x89PNG"
        explorer.controls["form"].value = "e2m1"
        explorer.controls["beyond"].value = "overflows"
        assert "e2m1 has no NaN" in explorer.message.value
        explorer.controls["number"].value = 2.2
        assert explorer.message.value == ""
        explore_number_line().controls["form"].value = "e5m2"


@st.composite
def models(draw: st.DrawFn) -> Promotion:
    return Promotion(
        8 * draw(st.integers(1, 32)), draw(st.integers(1, 4)), 32 * draw(st.integers(1, 16)), draw(st.integers(1, 5))
    )


class TestPromotion:
    @given(models())
    def test_nobody_is_served_twice_at_once(self, model: Promotion) -> None:
        steps = model.schedule(5)
        for before, step in zip(steps, steps[1:], strict=False):
            assert step.begun >= before.multiplied and step.promoting >= before.done
        for number, step in enumerate(steps):
            assert step.multiplied - step.begun == model.products and step.done - step.promoting == model.promoting
            assert step.promoting >= step.multiplied
            if number >= model.warpgroups:
                assert step.begun >= steps[number - model.warpgroups].done

    @given(models())
    def test_busy_is_that_of_a_long_run(self, model: Promotion) -> None:
        steps = model.schedule(400)
        first, last = steps[len(steps) // 2], steps[-1]
        served = (len(steps) - 1 - len(steps) // 2) * model.products
        assert served / (last.begun - first.begun) == pytest.approx(model.busy, rel=0.01)

    def test_known_ones(self) -> None:
        """64 x 128 x 128 multiply-adds at 4,096 a cycle; 64 x 128 sums on 128 lanes; two sets of 64 a thread."""
        one = Promotion(128, 1)
        assert (one.products, one.promoting, one.registers) == (256, 64, 128)
        assert one.busy == pytest.approx(0.8) and Promotion(128, 2).busy == 1
        assert Promotion(256, 2).registers == 256
        assert "more than the 255" in said(promotion(Promotion(256, 2))) and "busy 80%" in said(promotion(one))

    def test_figure_draws_the_schedule(self) -> None:
        model = Promotion(64, 2, 32, 2)
        boxes = {patch.get_gid(): patch for patch in promotion(model, turns=3).axes[0].patches}
        for number, step in enumerate(model.schedule(3)):
            products, promoted = boxes[f"products {number}"], boxes[f"promotion {number}"]
            assert (products.get_x(), products.get_width()) == (step.begun, model.products)
            assert promoted.get_x() == step.promoting
            assert round(products.get_y() + products.get_height() / 2) == step.warpgroup

    def test_impossible_ones_are_refused(self) -> None:
        for numbers in ((0, 1, 128, 1), (64, 0, 128, 1), (64, 1, 48, 1), (64, 1, 32, 0)):
            with pytest.raises(ValueError, match="columns|promoted"):
                Promotion(*numbers)
        explore_promotion().controls["warpgroups"].value = 2
