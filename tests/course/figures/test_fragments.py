"""The picture of a fragment: each element's lane and register, and what one lane holds; the explorer's controls."""

from __future__ import annotations

import pytest

from course.figures.explore import Explorer
from course.figures.fragments import explore_fragments, fragment
from tests.sampling import WHOLE
from warplab.figures import style
from warplab.hardware.fragments import ldmatrix, mma, wgmma_sums


def test_a_cell_stands_where_its_element_does() -> None:
    layout = mma("b")
    figure = fragment(layout, 6)
    matrix, registers = figure.axes
    cells = {str(p.get_gid()): p for p in matrix.patches}
    assert len(cells) == 16 * 8
    cell = cells["element 4 1 lane 6 register 0"]
    assert cell.get_xy() == (1, 4)
    numbers = [t.get_text() for t in matrix.texts if t.get_position() == (1.5, 4.5)]
    assert numbers == ["6"]
    # The chosen lane's elements, and no other, have the full colour of their register.
    full = [gid for gid, p in cells.items() if style.ink_on(p.get_facecolor()) == "#FFFFFF"]
    assert full == ["element 4 1 lane 6 register 0", "element 5 1 lane 6 register 0"]
    held = [str(t.get_gid()) for t in registers.texts if t.get_gid()]
    assert held == ["b0 part 0: 4, 1", "b0 part 1: 5, 1", "b1 part 0: 12, 1", "b1 part 1: 13, 1"]
    # Low bits stand right.
    low, high = registers.patches[:2]
    assert low.get_x() > high.get_x()
    assert "16 x 8 elements of 16 bits" in figure.texts[1].get_text()


def test_large_matrices_have_no_numbers_but_all_their_cells() -> None:
    figure = fragment(wgmma_sums(64), None)
    assert len(figure.axes[0].patches) == 64 * 64
    assert not [t for t in figure.axes[0].texts if t.get_text() == "127"]
    with pytest.raises(ValueError, match="lanes 0 to 31"):
        fragment(ldmatrix(), 32)


@pytest.mark.slow
def test_the_explorer_draws_what_is_chosen() -> None:
    explorer = explore_fragments()
    assert "a of mma.m16n8k16" in explorer.figure.texts[0].get_text()
    at_first = bytes(explorer.image.value)
    explorer.controls["operand"].value = "b"
    first = bytes(explorer.image.value)
    assert first.startswith(b"\x89PNG") and first != at_first
    explorer.controls["lane"].value = 31
    assert bytes(explorer.image.value) != first
    forms = explorer.controls["form"].options
    for form in forms if WHOLE else (*forms[::5], forms[-1]):  # a picture of thousands of cells takes seconds
        explorer.controls["form"].value = form
        assert explorer.message.value == ""


def test_a_choice_that_cannot_be_drawn_is_said() -> None:
    def draw(n: int):
        return fragment(wgmma_sums(n), None)

    explorer = Explorer(draw, n=(16, [16, 12]))
    explorer.controls["n"].value = 12
    assert "not 12" in explorer.message.value
    explorer.controls["n"].value = 16
    assert not explorer.message.value


def test_a_page_without_a_kernel_gets_the_figures_of_few_choices() -> None:
    def draw(n: int, operand: str):
        if (n, operand) == (24, "b"):
            raise ValueError("no such operand")
        return fragment(wgmma_sums(n), None)

    states = Explorer(draw, n=(16, range(8, 25, 8)), operand=("a", ["a", "b"])).states()
    assert states["choices"] == [["n", 1, ["8", "16", "24"]], ["operand", 0, ["a", "b"]]]
    assert len(states["figures"]) == 6 and states["figures"][5] == ["no such operand"]
    assert states["figures"][0] == states["figures"][1] != states["figures"][2]  # the last choice moves fastest
    assert Explorer(draw, n=(16, range(8, 257, 8)), operand=("a", ["a", "b"])).states() == {}
    assert Explorer(lambda n: draw(16, "a"), n=(1.0, float)).states() == {}
