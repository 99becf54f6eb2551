"""All mutants, lab by lab."""

from __future__ import annotations

from corpus.judge.mutants import (
    axpy,
    divergence,
    hopper_hgemm,
    reduction,
    softmax,
    tensor_core_hgemm,
    tiled_gemm,
    transpose,
)

MUTANTS = (
    *axpy.MUTANTS,
    *divergence.MUTANTS,
    *transpose.MUTANTS,
    *reduction.MUTANTS,
    *softmax.MUTANTS,
    *tiled_gemm.MUTANTS,
    *tensor_core_hgemm.MUTANTS,
    *hopper_hgemm.MUTANTS,
)
