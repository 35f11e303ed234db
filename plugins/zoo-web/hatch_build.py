"""Brings onnxruntime-web into zoo_web/vendor when the package is built or installed for editing.

A build without npm or without network goes on without it: `zoo gallery` then says what is missing.
"""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Vendor(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        package = Path(self.root) / "zoo_web"
        problem = runpy.run_path(str(package / "vendoring.py"))["bring"](package / "vendor")
        if problem:
            self.app.display_warning(f"zoo-web is built without onnxruntime-web: {problem}")
