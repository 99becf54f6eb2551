"""All mutants, lab by lab."""

from __future__ import annotations

from tests.mutation import axpy, hopper_hgemm, tiled_gemm, transpose

MUTANTS = (*axpy.MUTANTS, *transpose.MUTANTS, *tiled_gemm.MUTANTS, *hopper_hgemm.MUTANTS)
