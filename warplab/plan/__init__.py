"""Submissions as data: capture host code, compile its kernels, keep the result as a Plan."""
