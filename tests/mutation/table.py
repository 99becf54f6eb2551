"""All mutants, lab by lab."""

from __future__ import annotations

from tests.mutation import axpy, hopper_hgemm, tensor_core_hgemm, tiled_gemm, transpose

MUTANTS = (
    *axpy.MUTANTS,
    *transpose.MUTANTS,
    *tiled_gemm.MUTANTS,
    *tensor_core_hgemm.MUTANTS,
    *hopper_hgemm.MUTANTS,
)
