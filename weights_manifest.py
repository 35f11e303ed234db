"""Write weights_manifest.json again, from the lists of the plugins here. Run it with make manifest.

ZOO_MANIFEST names the file. What a repository holds stays listed as long as the bytes are the same.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from zoo_core.io.files import user_manifest
from zoo_core.weights.manifest import USERS, all_weights, changing, is_packaged, packaged_file
from zoo_core.weights.repository import MODEL

PLUGINS = Path(__file__).resolve().parent / "plugins"


def main() -> None:
    listed = [weights for who, weights in all_weights()[0] if who != USERS]
    with changing(user_manifest()) as entries:
        for name in [n for n, old in entries.items() if any(map(is_packaged, old.sources))]:
            del entries[name]
        for weights in listed:
            file = packaged_file(weights)
            if file and file.is_relative_to(PLUGINS):
                entries[weights.name] = structs.replace(weights, file=MODEL)


if __name__ == "__main__":
    main()
