"""zoo export: the written file says what the model says, or it is not kept."""

import numpy as np
import torch
from click.testing import CliRunner
from hub.parts import small_run

import zoo
from zoo_core.cli.use import export_command
from zoo_core.io.errors import MissingDependency, UsageError, ZooError
from zoo_core.torch import trainer as torch_trainer
from zoo_core.use.load import probes


def export(*arguments):
    return CliRunner().invoke(export_command, [str(a) for a in arguments], catch_exceptions=True)


def test_onnx_and_pt2_say_what_the_model_says(tmp_path):
    run = small_run(tmp_path / "runs", "cnn", channels=(4, 8), hidden=8)
    model = zoo.load(run.path)
    images = probes(model)[:3]
    expected = model(images).detach().numpy()
    for name in ("model.pt2", "model.onnx"):
        done = export(run.path, "-o", tmp_path / name)
        assert done.exit_code == 0, done.exception
        assert "largest difference" in done.output
    program = torch.export.load(tmp_path / "model.pt2").module()
    assert torch.equal(program(images), model(images))
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (answer,) = session.run(None, {"images": images.numpy()})
    assert np.allclose(answer, expected, atol=1e-4)
    left = {p.name for p in tmp_path.iterdir()}
    assert left - {"cache"} == {"model.onnx", "model.pt2", "runs"}


def test_what_cannot_be_exported(run, numpy_run, tmp_path, monkeypatch):
    for arguments, kind, words in (
        ((run.path, "-o", tmp_path / "model.zip"), UsageError, "must end in .onnx or .pt2"),
        ((numpy_run.path, "-o", tmp_path / "model.onnx"), UsageError, "cannot be exported"),
    ):
        done = export(*arguments)
        assert isinstance(done.exception, kind) and words in str(done.exception)
    monkeypatch.setattr(torch_trainer.importlib.util, "find_spec", lambda name: None)
    done = export(run.path, "-o", tmp_path / "model.onnx")
    assert isinstance(done.exception, MissingDependency)
    assert done.exception.hint == "pip install 'zoo-core[onnx]'"


def test_a_file_that_says_something_else_is_not_kept(run, tmp_path, monkeypatch):
    def wrong(model, images, path, about):
        path.write_bytes(b"wrong")
        return [np.ones((len(images), 10), np.float32)]

    monkeypatch.setattr(torch_trainer, "_written", wrong)
    done = export(run.path, "-o", tmp_path / "model.pt2")
    assert isinstance(done.exception, ZooError) and "the file was not saved" in str(done.exception)
    assert not (tmp_path / "model.pt2").exists()
