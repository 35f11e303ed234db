"""The gallery in Chromium: what it answers, what it refuses, how it looks and is used."""

import shutil

import numpy as np
import onnxruntime
import pytest
from fixtures.chromium import (
    ANSWERS,
    LOOKS,
    NO_HASHES,
    axe,
    complaints,
    dropped,
    encoded,
    hosted,
    png,
    seen,
)
from fixtures.serving import Client
from PIL import Image
from test_shipped import DATA, WEIGHTS, fetch
from zoo_web import computed, vendoring

import zoo

pytestmark = pytest.mark.slow
SAME = 1e-3  # probabilities may differ by that much
CLASSIFIERS = [weights for weights in WEIGHTS if "test_accuracy" in weights.metrics]
MANY, PART = 1000, 50  # images of the test; of one request

ASK = """async ([base, model, runtime, files]) => {
  const { onnxRunner } = await import(base + "/static/onnx.js");
  const at = (path) => base + "/" + path;
  const runner = onnxRunner(
    { ...model, file: at(model.file) },
    { ...runtime, script: at(runtime.script), program: at(runtime.program) },
  );
  const found = [];
  for (const file of files) {
    const bytes = Uint8Array.from(atob(file), (c) => c.charCodeAt(0));
    const { probabilities, seen } = await runner.classify(bytes);
    found.push({ probabilities: [...probabilities], seen: seen && [...seen.pixels] });
  }
  return found;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """All shipped classifiers and their samples; nothing is measured, which takes long."""
    if missing := vendoring.missing():
        pytest.fail(f"zoo-web was installed without npm: {', '.join(missing)} is not here")
    for dataset in sorted({weights.dataset for weights in CLASSIFIERS}):
        fetch(dataset)
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(DATA))

        def parts(subject):
            return ["onnx"] * subject.classifies + ["walk"] * subject.draws

        patch.setattr(computed, "wanted", parts)
        done = zoo.gallery([weights.name for weights in WEIGHTS], folder / "site")
    assert not done["problems"]
    yield folder / "site"


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(DATA))


def images(dataset, count):
    split = zoo.open_dataset(dataset).test
    rows = np.linspace(0, len(split) - 1, count).astype(int)
    return [np.asarray(split.images[row]) for row in rows]


def told(page, site):
    with hosted(site) as address:
        page.goto(f"{address}/index.html")
        return page.evaluate("JSON.parse(document.getElementById('models').textContent)")


@pytest.mark.parametrize("weights", CLASSIFIERS, ids=lambda weights: weights.name)
def test_an_image_that_is_dropped_gets_the_answer_of_zoo_predict(weights, site, page, data):
    (image,) = images(weights.dataset, 1)
    larger = np.asarray(Image.fromarray(np.squeeze(image)).resize((90, 61)).convert("RGB"))
    model = zoo.load(weights.name)
    with hosted(site) as address:
        page.goto(f"{address}/models/{weights.name}.html")
        for file in (png(image), png(larger)):
            (said,) = dropped(page, file, 1)
            ours = dict(zip(said["classes"], said["probabilities"], strict=True))
            theirs = dict(zoo.predict(model, file, top=len(ours))[0].classes)
            assert ours == pytest.approx(theirs, abs=SAME)
        assert page.locator(".answer canvas").count() == 1  # as the network sees it
    assert not page.wrong
    assert all(url.startswith((address, "blob:")) for url in page.asked), page.asked


def test_page_server_file_and_command_agree_on_a_thousand_images(site, page, data):
    """Of cnn: what the page, zoo serve, the ONNX file alone and zoo predict say."""
    pixels = images("cifar10", MANY)
    files = [png(image) for image in pixels]
    parts = [slice(start, start + PART) for start in range(0, MANY, PART)]
    document = told(page, site)
    (model,) = [one for one in document["models"] if one["title"] == "cnn.cifar10"]
    names = model["classes"]

    def row(classes):
        known = dict(classes)
        return [known[name] for name in names]

    asked = zoo.predict("cnn.cifar10", files, top=10)
    theirs = np.array([row(one.classes) for one in asked])
    with hosted(site) as address:
        page.goto(f"{address}/index.html")
        given = address, model, document["runtime"]
        answers = [page.evaluate(ASK, [*given, encoded(files[part])]) for part in parts]
    in_page = np.array([one["probabilities"] for answer in answers for one in answer])
    with zoo.serve("cnn.cifar10", port=0, wait=False) as server:
        client = Client(server.url)
        answers = [client.post_images(*files[part], top=10).document for part in parts]
    said = [one["classes"] for answer in answers for one in answer["predictions"]]
    served = np.array([row((c["name"], c["probability"]) for c in one) for one in said])
    session = onnxruntime.InferenceSession(site / model["file"])
    (in_file,) = session.run(["probabilities"], {"image": np.stack(pixels)})
    for ours in (in_page, served, in_file):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() < SAME


def test_an_image_is_chosen_by_keyboard_or_pasted(site, page, data):
    one, other = map(png, images("cifar10", 2))
    page.on("filechooser", lambda _: None)  # from now on Chromium opens no dialog of its own
    with hosted(site) as address:
        page.goto(f"{address}/models/cnn.cifar10.html")
        (wanted,) = dropped(page, one, 1)
        page.reload()
        page.get_by_role("button", name="Choose an image").focus()
        with page.expect_file_chooser() as chosen:
            page.keyboard.press("Enter")
        chosen.value.set_files({"name": "image.png", "mimeType": "image/png", "buffer": one})
        page.locator(".answer[data-answer]").wait_for(timeout=120_000)
        (said,) = page.evaluate(ANSWERS)
        assert said["probabilities"] == wanted["probabilities"]
        (pasted,) = dropped(page, other, 1, how="paste")
        assert pasted["probabilities"] != wanted["probabilities"]


def test_the_network_sees_what_the_page_shows(site, page, data):
    (image,) = images("cifar10", 1)
    document = told(page, site)
    (model,) = [one for one in document["models"] if one["title"] == "cnn.cifar10"]
    with hosted(site) as address:
        page.goto(f"{address}/index.html")
        (found,) = page.evaluate(ASK, [address, model, document["runtime"], encoded([png(image)])])
    assert np.array_equal(np.array(found["seen"]).reshape(32, 32, 4)[:, :, :3], image)


def test_several_models_answer_side_by_side_and_nothing_leaves_the_origin(site, page, data):
    (image,) = images("cifar10", 1)
    with hosted(site) as address:
        page.goto(f"{address}/index.html")
        before = len(page.asked)
        assert not any(
            url.endswith((".onnx", vendoring.PROGRAM)) for url in page.asked
        )  # on demand
        for title in ("cnn.cifar10", "nano_vit_p4.cifar10", "mlp.cifar10"):
            page.get_by_role("checkbox", name=title).check()
        said = dropped(page, png(image), 3)
        assert {one["title"] for one in said} == {
            "cnn.cifar10", "nano_vit_p4.cifar10", "mlp.cifar10",
        }  # fmt: skip
        page.get_by_role("checkbox", name="mlp.cifar10").uncheck()
        assert page.locator(".answer").count() == 2
    assert len(page.asked) > before
    assert not page.wrong
    assert all(url.startswith((address, "blob:")) for url in page.asked), page.asked


def test_the_policy_of_the_page_stops_a_request_to_elsewhere(site, page):
    with hosted(site) as address:
        page.goto(f"{address}/index.html")
        elsewhere = address.replace("127.0.0.1", "localhost")  # another origin
        stopped = "(url) => fetch(url).then(() => 'sent', () => 'stopped')"
        assert page.evaluate(stopped, f"{elsewhere}/index.html") == "stopped"
        assert page.evaluate(stopped, f"{address}/index.html") == "sent"
    assert any("Content Security Policy" in line for line in page.wrong)


@pytest.mark.parametrize("which", ["weights", "program"])
def test_altered_files_are_refused(which, site, page, data, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(site, copy)
    inside = "files/cnn.cifar10/model.onnx" if which == "weights" else f"vendor/{vendoring.PROGRAM}"
    content = bytearray((copy / inside).read_bytes())
    content[len(content) // 2] ^= 1
    (copy / inside).write_bytes(content)
    (image,) = images("cifar10", 1)
    with hosted(copy) as address:
        page.goto(f"{address}/models/cnn.cifar10.html")
        page.locator("#box input[type=file]").first.set_input_files(
            {"name": "image.png", "mimeType": "image/png", "buffer": png(image)}
        )
        page.wait_for_selector(".answer .bad", timeout=120_000)
        assert page.locator(".answer .bad").inner_text().startswith("Refused ")
        assert page.locator(".answer[data-answer]").count() == 0


def test_where_browsers_cannot_hash_the_page_says_so(site, page, data):
    (image,) = images("cifar10", 1)
    with hosted(site) as address:
        page.goto(f"{address.replace('127.0.0.1', NO_HASHES)}/models/cnn.cifar10.html")
        page.locator("#box input[type=file]").first.set_input_files(
            {"name": "image.png", "mimeType": "image/png", "buffer": png(image)}
        )
        page.wait_for_selector(".answer .bad", timeout=60_000)
        assert "https:// addresses" in page.locator(".answer .bad").inner_text()


def test_what_is_no_image_gets_a_sentence(site, page):
    with hosted(site) as address:
        page.goto(f"{address}/models/cnn.cifar10.html")
        page.locator("#box input[type=file]").first.set_input_files(
            {"name": "image.png", "mimeType": "image/png", "buffer": b"not an image"}
        )
        page.wait_for_selector(".answer .bad", timeout=120_000)
        assert "cannot read the file as an image" in page.locator(".answer .bad").inner_text()


def test_classes_and_places_of_a_walk_can_be_chosen(site, page):
    with hosted(site) as address:
        page.goto(f"{address}/models/acgan.cifar10.html")
        picture = page.locator(".walk image")
        first = (picture.get_attribute("x"), picture.get_attribute("y"))
        page.get_by_label("Class").select_option("frog")
        page.get_by_label("Place on the walk").press("ArrowRight")
        second = (picture.get_attribute("x"), picture.get_attribute("y"))
        assert first[0] != second[0] and first[1] != second[1]
    assert not page.wrong


def test_the_matrix_is_read_by_keyboard(made, page):
    with hosted(made.site) as address:
        page.goto(f"{address}/models/{made.run.name.lower()}.html")
        cells = page.locator(".confusion tbody td")
        cells.first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        said = page.locator("#said").inner_text()
        names = sorted(made.names)
        assert said.endswith(f" of 10 images of {names[1]} were called {names[1]}.")
    assert not page.wrong


def test_a_table_is_sorted_by_its_headings(site, page):
    with hosted(site) as address:
        page.goto(f"{address}/index.html")
        page.get_by_role("button", name="parameters").click()
        shown = page.locator("table.sortable tbody tr td:nth-child(5)").all_inner_texts()
        numbers = [int(text.replace(",", "")) for text in shown if text]
        assert numbers == sorted(numbers, reverse=True) and len(numbers) > 5


@pytest.mark.parametrize("look", LOOKS, ids="-".join)
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(chrome, site, made, look, data):
    (image,) = images("cifar10", 1)
    with hosted(site) as ours, hosted(made.site) as theirs:
        for address in (
            f"{ours}/index.html",
            f"{ours}/models/acgan.cifar10.html",
            f"{theirs}/models/{made.run.name.lower()}.html",
        ):
            with seen(chrome, look) as page:
                page.goto(address)
                if "index" in address:
                    dropped(page, png(image), 1)
                assert complaints(page, axe(DATA)) == []
