"""The notebooks: their cells, words and links, and the exercises of each chapter.

This folder has many files because the exercises of each chapter have one of their own.
"""
