import json

import pytest
from zoo_tune.search import Search

from zoo_core.io.documents import read_document, write_document
from zoo_core.io.errors import ZooError
from zoo_core.runs.run import Run


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "new" / "run.json"
    write_document(path, {"format": 1, "name": "ä"})
    assert read_document(path, 1) == {"format": 1, "name": "ä"}
    assert [file.name for file in path.parent.iterdir()] == ["run.json"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"format": 1', "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"format": 2}', "not in a format that this zoo knows"),
        (b"[1]", "not in a format that this zoo knows"),
    ],
)
@pytest.mark.parametrize("kind", [Run, Search])
def test_a_damaged_file_is_a_sentence_that_names_it(tmp_path, kind, content, reason):
    folder = kind(tmp_path)
    folder.settings_file.write_bytes(content)
    with pytest.raises(ZooError, match=reason) as raised:
        folder.read()
    assert str(folder.settings_file) in str(raised.value)


@pytest.mark.parametrize(("kind", "word"), [(Run, "run"), (Search, "search")])
def test_a_folder_without_its_file_is_none_of_ours(tmp_path, kind, word):
    with pytest.raises(ZooError, match=f"is not a {word}: it has no {word}.json"):
        kind(tmp_path).read()


def test_a_document_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "run.json"
    write_document(path, {"format": 1})
    with pytest.raises(TypeError):
        write_document(path, {"format": 1, "bad": object()})
    assert json.loads(path.read_text()) == {"format": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]
