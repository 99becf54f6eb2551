"""Half-precision products on a GPU: 500 drawn shapes against torch, arrays of both libraries, streams, errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import exp, log
from typing import Any

import pytest

from benchmarks.timed_recipes import compile_all
from systems.kernels import KernelError, matmul
from systems.kernels.arrays import described, library_of
from systems.kernels.chips import Chip, chip_of
from systems.kernels.half_matmul import product
from systems.kernels.half_recipes import Choice, Problem
from systems.kernels.lean import FORMS
from systems.kernels.ready import Prepared

pytestmark = pytest.mark.gpu

DRAWN, LEAN, MOST = 500, 120, 3000
UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def drawn(number: int) -> tuple[Any, Any]:
    """Two torch matrices: any size, in either order, now and then a slice that begins anywhere."""
    import torch

    draw = random.Random(number)
    m, n, k = (round(exp(draw.uniform(0, log(MOST)))) for _ in range(3))
    if number % 2:
        m, n, k = (-(-size // 8) * 8 for size in (m, n, k))
    dtype = getattr(torch, draw.choice(["float16", "float16", "bfloat16"]))
    torch.manual_seed(number)

    def matrix(rows: int, columns: int) -> Any:
        turned, cut = draw.random() < 0.4, draw.random() < 0.2
        rows, columns = (columns, rows) if turned else (rows, columns)
        more = draw.randrange(1, 9) if cut else 0
        whole = torch.randn(rows, columns + more, device="cuda").to(dtype)[:, more:]
        return whole.t() if turned else whole

    return matrix(m, k), matrix(k, n)


def check(a: Any, b: Any, c: Any) -> None:
    """Compare with a product in float32: another order of adding, then a rounding, lie between them."""
    true = a.float() @ b.float()
    error = (c.float() - true).abs()
    unit = UNIT[str(a.dtype).removeprefix("torch.")]
    assert bool((error <= 4 * unit * true.abs() + 2.0**-18 * max(a.shape[1], 64)).all()), (a.shape, b.shape, a.stride())


def test_drawn_shapes_are_those_of_torch() -> None:
    chip, recipes = chip_of(0), []
    for number in range(DRAWN):
        a, b = drawn(number)
        of_a, of_b = (described(name, library_of(name, x).describe(x)) for name, x in (("a", a), ("b", b)))
        made = product(of_a, of_b, None, chip)
        recipes += [made] if made else []
    compile_all(recipes)
    for number in range(DRAWN):
        a, b = drawn(number)
        check(a, b, matmul(a, b))


def always(choice: Choice) -> Callable[[Problem, Chip], Choice]:
    """A chooser that takes one choice."""
    return lambda problem, chip: choice


def test_lean_forms_of_drawn_shapes() -> None:
    """Drawn lean forms of products with few rows or columns or a small k, whatever the model would choose."""
    import torch

    draw, made = random.Random(56), []
    for number in range(LEAN):
        a, b = drawn(number)
        if number % 3 == 0:
            a, b = a[:, : draw.randrange(1, 65)], b[: draw.randrange(1, 65)]
            a, b = a[:, : len(b)], b[: a.shape[1]]
        elif number % 3 == 1:
            a = a[: draw.randrange(1, 33)]
        else:
            b = b[:, : draw.randrange(1, 33)]
        of_a, of_b = (described(name, library_of(name, x).describe(x)) for name, x in (("a", a), ("b", b)))
        forms = [form for form in FORMS if form.takes(a.shape[0], b.shape[1], a.shape[1])]
        if forms:
            choice = Choice(draw.choice(forms))
            recipe = product(of_a, of_b, None, chip_of(0), always(choice))
            assert recipe is not None and recipe.chosen == choice.name and not recipe.scratch
            made.append((a, b, recipe))
    compile_all(recipe for _, _, recipe in made)
    for a, b, recipe in made:
        c = torch.full((a.shape[0], b.shape[1]), float("nan"), device="cuda", dtype=a.dtype)
        addresses = [array.data_ptr() for array in (a, b, c)]
        addresses += [
            torch.empty(size, device="cuda", dtype=torch.uint8).data_ptr() for size in recipe.scratch.values()
        ]
        Prepared(recipe, 0, ("a", "b", "c"))(addresses, torch.cuda.current_stream().cuda_stream)
        check(a, b, c)


def test_into_an_out_of_any_strides_on_another_stream() -> None:
    import torch

    a, b = (torch.randn(300, 300, device="cuda", dtype=torch.float16) for _ in range(2))
    memory = torch.full((300, 700), 7.0, device="cuda", dtype=torch.float16)
    stream = torch.cuda.Stream()
    for out in (memory[:, 3:303], memory[:, 8:308], memory[:, 0:600:2], memory[:, 5:305].t()):
        memory.fill_(7.0)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(10_000_000)
            a.copy_(torch.randn_like(a))  # seen only by work that waits for this stream
            assert matmul(a, b, out) is out
        stream.synchronize()
        check(a, b, out)
        out.fill_(7.0)
        assert bool((memory == 7.0).all())


def test_arrays_of_cupy() -> None:
    import cupy

    a, b = (cupy.random.standard_normal((65, 130)).astype(cupy.float16) for _ in range(2))
    c = matmul(a, b.T)
    assert isinstance(c, cupy.ndarray)
    true = a.astype(cupy.float64) @ b.T.astype(cupy.float64)
    assert float(abs(c - true).max()) < 0.05
    with cupy.cuda.Stream(non_blocking=True) as stream:
        again = matmul(a, b.T)
        stream.synchronize()
    assert bool((again == c).all())


def test_what_is_empty_special_or_refused() -> None:
    import torch

    def new(*size: int, **kind: Any) -> Any:
        return torch.randn(*size, device="cuda", dtype=torch.float16, **kind)

    assert matmul(new(0, 5), new(5, 3)).shape == (0, 3)
    assert bool((matmul(new(4, 0), new(0, 3)) == 0).all())
    a, b = new(70, 90), new(90, 50)
    a[3, 4], a[7, 8], b[9, 10] = float("nan"), float("inf"), float("-inf")
    assert torch.equal(matmul(a, b).isnan(), (a.float() @ b.float()).isnan())
    for wrong, words in (
        ((new(4, 5), new(5, 3).cpu()), "memory of cpu"),
        ((new(4, 5), new(5, 3).float()), "give float16 or bfloat16"),
        ((new(4, 5), [[1.0]]), "b is list"),
        ((new(4, 5, requires_grad=True), new(5, 3)), "records no gradient"),
    ):
        with pytest.raises(KernelError, match=words):
            matmul(*wrong)
