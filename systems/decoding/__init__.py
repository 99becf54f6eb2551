"""Attention of one new query per sequence over paged keys and values."""
