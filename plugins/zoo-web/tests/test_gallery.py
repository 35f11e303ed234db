"""The site as files: what is escaped, where links lead, what is computed, what is refused."""

import io
import json
import shutil
import tarfile
import zipfile
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from fixtures.html import TAGS, Page
from support import ROOT, build_wheels
from testing.mistakes import importable, install
from zoo_web import computed, gallery, measured, plots, vendoring

import zoo
from zoo import kit

CARRIES = """
@zoo.hookimpl
def zoo_manifests():
    return ["zoo_knn:weights.json"]
"""


def pages_of(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_escapes_the_names_of_classes(made):
    (start, model) = pages_of(made.site).values()
    for page in (start, model):
        assert page.tags <= TAGS, page.tags - TAGS
    for name in made.names:
        assert name in model.shown
    assert "{{ 49 }}" not in model.shown
    told = next(line for line in start.shown.splitlines() if line.startswith('{"models"'))
    assert json.loads(told)["models"][0]["classes"] == sorted(made.names)


def test_pages_have_no_style_and_no_script_of_their_own(made):
    """The policy of the page would not run it."""
    for page in pages_of(made.site).values():
        assert not [name for name in page.attributes if name == "style" or name.startswith("on")]
        assert "style" not in page.tags
    for path in made.site.rglob("*.html"):
        head = path.read_text("utf-8")
        assert "default-src &#39;none&#39;" in head
        assert "unsafe-inline" not in head


def test_pages_do_not_say_where_things_are_on_the_disk(made):
    for path in made.site.rglob("*.*"):
        assert str(made.run.parent.parent).encode() not in path.read_bytes(), path


def test_every_link_is_relative_and_leads_somewhere(made):
    pages = pages_of(made.site)
    for path, page in pages.items():
        assert page.links
        for link in page.links:
            parts = urlsplit(link)
            assert not parts.scheme and not parts.netloc and not parts.path.startswith("/"), link
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), link
            assert made.site.resolve() in target.parents, link
            if parts.fragment:
                assert parts.fragment in Page(target).ids, link


def test_files_that_scripts_load_are_there_with_the_digests_that_they_check(made):
    text = Page(made.site / "index.html").shown
    told = json.loads(next(line for line in text.splitlines() if line.startswith('{"models"')))
    files = [(one["file"], one["sha256"]) for one in told["models"]]
    if runtime := told["runtime"]:
        files.append((runtime["program"], runtime["sha256"]))
        assert (made.site / runtime["script"]).is_file()
    for path, sha256 in files:
        assert kit.file_digest(made.site / path) == sha256


def test_the_start_page_is_small_without_models(made):
    files = [made.site / "index.html", *(made.site / "static").iterdir()]
    assert sum(path.stat().st_size for path in files) < 300_000


def test_a_second_gallery_computes_nothing_again_and_writes_the_same(made, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(made.cache))
    for part in computed.WORDS:
        monkeypatch.setattr(computed.Maker, part, None)  # calling it would fail
    monkeypatch.setattr(zoo, "load", None)
    done = zoo.gallery([str(made.run)], tmp_path / "site")
    assert not done["problems"]
    again = {path.relative_to(tmp_path / "site") for path in (tmp_path / "site").rglob("*")}
    assert again == {path.relative_to(made.site) for path in made.site.rglob("*")}
    for path in filter(lambda one: (made.site / one).is_file(), again):
        assert (tmp_path / "site" / path).read_bytes() == (made.site / path).read_bytes(), path


def test_an_interrupted_measurement_goes_on_where_it_was(made, tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "BLOCK", 6)  # 30 images: five blocks
    asked, answer = [], measured.answers_to

    def counted(model, images):
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(len(images))
        return answer(model, images)

    monkeypatch.setattr(measured, "answers_to", counted)
    with pytest.raises(KeyboardInterrupt):
        zoo.gallery([str(made.run)], tmp_path / "site")
    assert asked == [6, 6, 6]
    assert not (tmp_path / "site").exists()
    asked.append(0)  # no interruption any more
    zoo.gallery([str(made.run)], tmp_path / "site")
    assert asked == [6, 6, 6, 0, 6, 6]
    model = next((tmp_path / "site" / "models").iterdir()).read_text("utf-8")
    assert model == next((made.site / "models").iterdir()).read_text("utf-8")


def test_figures_of_a_page_are_those_of_zoo_evaluate(made, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(made.cache))
    (one,) = gallery.subjects([str(made.run)])
    found, ours = zoo.evaluate(made.run), computed.compute(one).parts["measured"]
    assert ours["confusion"] == found["confusion"]
    assert ours["images"] == found["images"]
    for name, value in ours["figures"].items():
        assert value == pytest.approx(found[name], abs=1e-5), name
    for name, ends in ours["intervals"].items():
        assert ends == pytest.approx(found["intervals"][name], abs=1e-5), name
    for mistake in ours["mistakes"]:
        assert mistake["true"] != mistake["said"]
    sure = [mistake["probability"] for mistake in ours["mistakes"]]
    assert sure == sorted(sure, reverse=True)


def test_a_part_that_fails_is_told_on_the_page_and_tried_again(made, tmp_path, monkeypatch):
    def fails(self, folder):
        raise ValueError("the model of a <stranger> breaks")

    with monkeypatch.context() as patch:
        patch.setattr(computed.Maker, "onnx", fails)
        done = zoo.gallery([str(made.run)], tmp_path / "site")
    (told,) = done["problems"].values()
    assert told["onnx"].endswith("the model of a <stranger> breaks")
    page = Page(next((tmp_path / "site" / "models").iterdir()))
    assert "the model of a <stranger> breaks" in page.shown
    assert "box" not in page.ids
    done = zoo.gallery([str(made.run)], tmp_path / "site")
    assert not done["problems"]
    page = Page(next((tmp_path / "site" / "models").iterdir()))
    assert "box" in page.ids or vendoring.missing()


def test_the_plugin_of_a_stranger_gets_its_page(tmp_path, monkeypatch):
    """Neither torch nor ONNX knows the nearest neighbours of docs/examples."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    package = (
        tmp_path / "site" / f"zoo_{install(ROOT / 'docs/examples/zoo-knn', tmp_path / 'site')}"
    )
    with (package / "plugin.py").open("a") as file:
        file.write(CARRIES)
    with importable(tmp_path / "site"):
        data = {"train_size": 60, "test_size": 30, "image_size": 16, "channels": 1}
        run = zoo.train("knn", "synthetic", runs=tmp_path / "runs", data=data, quiet=True)
        zoo.publish(run.path, to=f"package:{package}", license="mit")
        assert "knn.synthetic" in [one.title for one in gallery.subjects()]
        done = zoo.gallery(["knn.synthetic"], tmp_path / "out")
    assert set(done["problems"]["knn.synthetic"]) == {"onnx"} and done["compute"] == []
    page = Page(tmp_path / "out" / "models" / "knn.synthetic.html")
    assert "does not say how its models become ONNX" in page.shown and "box" not in page.ids
    assert {"figures", "classes", "confusion", "explained", "card"} <= page.ids


def test_a_folder_with_something_else_is_refused_and_left_alone(made, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(zoo.UsageError, match="holds something else than a gallery"):
        zoo.gallery([str(made.run)], tmp_path / "mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_without_onnxruntime_the_site_says_what_is_missing(made, tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(made.cache))
    monkeypatch.setattr(vendoring, "VENDOR", tmp_path / "nothing")
    done = zoo.gallery([str(made.run)], tmp_path / "site")
    assert done["compute"] == []
    for page in pages_of(tmp_path / "site").values():
        assert "Install npm" in page.shown
        assert "box" not in page.ids


def test_labels_in_a_plot_do_not_cover_each_other():
    rng = np.random.default_rng(0)
    points = [
        plots.Point(f"model_{n}", "x", a, (a - 0.01, a + 0.01), c, "")
        for n, (a, c) in enumerate(
            zip(rng.uniform(0.6, 0.9, 7), 10 ** rng.uniform(5, 7, 7), strict=True)
        )
    ]
    panel = plots.panel("cifar10", "parameters", points, plots.amount)
    boxes = []
    for dot in panel.dots:
        left = dot.label_x - plots.LETTER * len(dot.label) * (dot.anchor == "end")
        boxes.append((left, dot.label_y - 10, left + plots.LETTER * len(dot.label), dot.label_y))
        assert panel.left <= dot.x <= panel.right and panel.top <= dot.y <= panel.bottom
        assert dot.high <= dot.y <= dot.low
    for place, one in enumerate(boxes):
        for other in boxes[:place]:
            assert not plots._meet(one, other)


class TestVendoring:
    """onnxruntime-web is fetched once, checked, and never in the way."""

    @pytest.fixture
    def no_npm(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    def tarball(self, tmp_path, monkeypatch, content=b"\0asm"):
        """A package in the cache, and the pin that it has."""
        kept = kit.cache_dir("web") / f"{vendoring.PACKAGE}-{vendoring.VERSION}.tgz"
        kept.parent.mkdir(parents=True)
        with tarfile.open(kept, "w:gz") as archive:
            for name in vendoring.FILES:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        monkeypatch.setattr(vendoring, "SHA256", kit.file_digest(kept))
        return kept

    def test_without_npm_a_build_goes_on_and_says_why(self, no_npm, tmp_path):
        assert vendoring.bring(tmp_path / "vendor") == "npm is not installed"
        assert not (tmp_path / "vendor").exists()

    def test_it_is_fetched_once(self, no_npm, tmp_path, monkeypatch):
        kept = self.tarball(tmp_path, monkeypatch)
        assert vendoring.bring(tmp_path / "vendor") == ""
        assert (tmp_path / "vendor" / "ort.js").read_bytes() == b"\0asm"
        kept.unlink()
        assert vendoring.bring(tmp_path / "vendor") == ""  # it is there already
        assert vendoring.bring(tmp_path / "other") == "npm is not installed"

    def test_another_tarball_is_not_unpacked(self, no_npm, tmp_path, monkeypatch):
        kept = self.tarball(tmp_path, monkeypatch)
        kept.write_bytes(kept.read_bytes() + b"more")
        assert vendoring.bring(tmp_path / "vendor") == "npm is not installed"
        assert not (tmp_path / "vendor").exists()

    @pytest.mark.skipif(shutil.which("sh") is None, reason="a shell script stands in for npm")
    def test_what_npm_gives_must_be_what_is_pinned(self, tmp_path, monkeypatch):
        npm = tmp_path / "bin" / "npm"
        npm.parent.mkdir()
        npm.write_text("#!/bin/sh\necho altered > onnxruntime-web.tgz\n")
        npm.chmod(0o755)
        monkeypatch.setenv("PATH", str(npm.parent), prepend=":")
        assert "npm gave another onnxruntime-web" in vendoring.bring(tmp_path / "vendor")
        assert not (tmp_path / "vendor").exists()
        assert not list(kit.cache_dir("web").glob("*.tgz"))

    def test_a_wheel_has_it_inside(self, tmp_path):
        if vendoring.missing():
            pytest.skip("zoo-web was installed without npm")
        (wheel,) = build_wheels(tmp_path, [ROOT / "plugins" / "zoo-web"])
        names = set(zipfile.ZipFile(wheel).namelist())
        assert {f"zoo_web/vendor/{name}" for name in vendoring.FILES.values()} <= names
        assert {"zoo_web/static/box.js", "zoo_web/templates/model.html"} <= names

    def test_an_installed_copy_is_the_pinned_one(self):
        mark = vendoring.VENDOR / "VERSION"
        if not mark.exists():
            pytest.skip("zoo-web was installed without npm")
        assert vendoring.SHA256 in mark.read_text()
        assert not vendoring.missing()


def test_a_page_counts_the_parameters_of_the_run_itself(made):
    """Not those of the model's defaults: the images of this run have three channels."""
    count = json.loads((made.run / "run.json").read_text("utf-8"))["parameters"]["total"]
    assert count != zoo.info("lenet_numpy").parameters
    (page,) = (made.site / "models").glob("*.html")
    assert f"{count:,} parameters" in page.read_text("utf-8")
