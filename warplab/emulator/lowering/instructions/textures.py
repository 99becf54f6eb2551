"""Textures and surfaces, which the emulator does not have."""

from __future__ import annotations

from warplab.emulator.lowering.rows import Row

TITLE = "Textures and surfaces"
ROWS = (
    Row(refused=(("tex{.1d,.2d,.3d}.v4.f32{.s32,.f32}", "4f32 [tensor]"),)),
    Row(refused=(("tld4{.r,.g,.b,.a}.2d.v4.f32.f32", "4f32 [tensor]"),)),
    Row(refused=(("txq{.width,.height,.depth}.b32", "b32 []"),)),
    Row(refused=(("{suld,sust}.b{.1d,.2d,.3d}.b32.trap", "b32 [tensor]"),)),
    Row(refused=(("suq{.width,.height,.depth}.b32", "b32 []"),)),
)
