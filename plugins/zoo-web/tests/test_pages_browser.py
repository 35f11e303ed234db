"""Reports, comparisons and the page of zoo serve in Chromium."""

import pytest
from fixtures.chromium import LOOKS, axe, complaints, dropped, seen
from fixtures.serving import image_file, serving
from test_shipped import DATA

import zoo

pytestmark = pytest.mark.slow
TOKEN = "a-long-secret-of-ours"


@pytest.fixture(scope="module")
def files(made, tmp_path_factory):
    """A report of a run, of a search, and a comparison."""
    folder, runs = tmp_path_factory.mktemp("pages"), made.run.parent
    data, how = str(made.images), {"runs": runs, "quiet": True, "epochs": 3}
    search = zoo.tune("fcn_numpy", data, trials=3, **how)
    other = zoo.train("fcn_numpy", data, name="other", **how)
    zoo.report_html(made.run, folder / "report.html")
    zoo.report_html(other.path, folder / "other.html")
    zoo.report_html(search.path, folder / "search.html")
    zoo.compare_html(made.run, other.path, output=folder / "compare.html")
    return folder


@pytest.mark.parametrize("look", LOOKS, ids="-".join)
def test_axe_finds_nothing_in_files_and_nothing_is_wider_than_the_screen(chrome, files, look):
    for path in sorted(files.iterdir()):
        with seen(chrome, look) as page:
            page.goto(path.as_uri())
            assert complaints(page, axe(DATA)) == [], path.name


def test_a_curve_is_read_by_pointer_and_by_keyboard(files, page):
    page.goto((files / "other.html").as_uri())
    figure = page.locator("figure.chart").filter(has_text="accuracy").first
    plot, readout = figure.locator("svg"), figure.locator(".readout")
    assert readout.inner_text().startswith("epoch 3")
    plot.hover(position={"x": 60, "y": 80})
    assert readout.inner_text().startswith("epoch 1")
    page.mouse.move(0, 0)
    assert readout.inner_text().startswith("epoch 3")
    plot.focus()
    page.keyboard.press("ArrowLeft")
    assert readout.inner_text().startswith("epoch 2")
    page.keyboard.press("Home")
    assert readout.inner_text().startswith("epoch 1")
    assert not page.wrong


def test_a_table_of_a_file_is_sorted_and_a_matrix_is_read(files, page, made):
    page.goto((files / "compare.html").as_uri())
    page.get_by_role("button", name="parameters").click()
    shown = page.locator("table.sortable tbody tr").all_inner_texts()
    assert "fcn_numpy" in shown[0] and "lenet_numpy" in shown[1]
    page.get_by_role("button", name="parameters").click()
    assert page.locator("table.sortable tbody tr").all_inner_texts() == shown[::-1]
    page.goto((files / "report.html").as_uri())
    page.locator(".confusion tbody td").first.hover()
    name = sorted(made.names)[0]
    assert page.locator("#said").inner_text().endswith(f"images of {name} were called {name}.")
    own = [(files / f"{one}.html").as_uri() for one in ("compare", "report")]
    assert [url for url in page.asked if not url.startswith("data:image/")] == own
    assert not page.wrong


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("serve")) as found:
        yield found


def test_the_page_of_a_server_answers_as_zoo_predict(server, page):
    file = image_file()
    page.goto(f"http://{server.host}:{server.port}/")
    (said,) = dropped(page, file, 1)
    (theirs,) = zoo.predict("lenet_numpy", [file], top=10)
    ours = dict(zip(said["classes"], said["probabilities"], strict=True))
    assert ours == pytest.approx(dict(theirs.classes), abs=1e-6)
    assert page.locator(".answer canvas").count() == 1  # as the network sees it
    text = {"name": "a.png", "mimeType": "image/png", "buffer": b"not an image"}
    page.locator("#box input[type=file]").first.set_input_files(text)
    page.wait_for_selector(".answer .bad")
    assert "cannot be read as an image" in page.locator(".answer .bad").inner_text()
    here = f"http://{server.host}:{server.port}/"
    assert all(url.startswith((here, "blob:")) for url in page.asked), page.asked


def test_the_page_of_a_server_asks_for_its_token(page, tmp_path):
    with serving(tmp_path, ZOO_SERVE_TOKEN=TOKEN) as server:
        page.goto(f"http://{server.host}:{server.port}/")
        page.locator("#box input[type=file]").first.set_input_files(
            {"name": "a.png", "mimeType": "image/png", "buffer": image_file()}
        )
        page.wait_for_selector(".answer .bad")
        assert "needs its token" in page.locator(".answer .bad").inner_text()
        page.get_by_label("Token of this server").fill(TOKEN)
        (said,) = dropped(page, image_file(), 1)
        assert len(said["classes"]) == 10


@pytest.mark.parametrize("look", LOOKS, ids="-".join)
def test_axe_finds_nothing_in_the_pages_of_a_server(chrome, server, look):
    with seen(chrome, look) as page:
        for path in ("", "docs"):
            page.goto(f"http://{server.host}:{server.port}/{path}")
            if not path:
                dropped(page, image_file(), 1)
            assert complaints(page, axe(DATA)) == []
