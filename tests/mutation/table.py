"""All mutants, lab by lab."""

from __future__ import annotations

from tests.mutation import axpy, tiled_gemm, transpose

MUTANTS = (*axpy.MUTANTS, *transpose.MUTANTS, *tiled_gemm.MUTANTS)
