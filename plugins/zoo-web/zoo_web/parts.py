"""What is computed for a page once, and kept: a folder of files for each part of each model.

A part is named by all that decides it, the module that makes it too, so that another version of a
model, of the zoo or of zoo-web makes it anew. A part that was interrupted leaves its folder
`making`, and goes on there the next time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zoo import kit

FORMAT = 1
ANSWER = "answer.json"


class Parts:
    """The parts of one model. Each has a document, and perhaps files beside it."""

    def __init__(self, key: Mapping[str, Any], makers: Mapping[str, str]) -> None:
        """makers: the module of zoo_web that makes each part."""
        self.folder = kit.cache_dir("web") / kit.document_digest({**key, "format": FORMAT})[:32]
        self.makers = makers

    def path(self, name: str) -> Path:
        code = Path(__file__).with_name(f"{self.makers[name]}.py")
        return self.folder / f"{name}-{kit.file_digest(code)[:8]}"

    def known(self, name: str) -> dict[str, Any] | None:
        """The document of a part that was made before."""
        try:
            return dict(kit.read_document(self.path(name) / ANSWER, FORMAT))
        except FileNotFoundError:
            return None

    def part(self, name: str, make: Callable[[Path], Mapping[str, Any]]) -> dict[str, Any]:
        """The document of a part; make(folder) computes it, with files for the folder."""
        path = self.path(name)
        with kit.locked(path):
            if (found := self.known(name)) is not None:
                return found
            making = path.with_name(f"{path.name}.making")
            making.mkdir(parents=True, exist_ok=True)
            document = {**make(making), "format": FORMAT}
            kit.write_document(making / ANSWER, document)
            shutil.rmtree(path, ignore_errors=True)
            making.rename(path)
            return document
