"""Mends submitted notebooks for nbgrader: a cell whose double has its identifier is an ordinary cell.

nbgrader 0.9 leaves such a cell with empty metadata, and ends with a KeyError when it looks for missing cells
(jupyter/nbgrader#1083). The course's nbgrader_config.py puts this between the two.
"""

from __future__ import annotations

from nbconvert.exporters.exporter import ResourcesDict
from nbformat.notebooknode import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor


class DropEmptyMetadata(NbGraderPreprocessor):
    """Removes nbgrader's metadata where there is nothing in it."""

    def preprocess_cell(
        self, cell: NotebookNode, resources: ResourcesDict, cell_index: int
    ) -> tuple[NotebookNode, ResourcesDict]:
        """The cell without them."""
        if cell.metadata.get("nbgrader") == {}:
            del cell.metadata["nbgrader"]
        return cell, resources
