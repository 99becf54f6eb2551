"""Decoding in one launch a step: an interpreter that stays on every SM, and its lists of instructions."""
