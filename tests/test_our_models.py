"""The models of this repository's own plugins: all there, and as large as what they reproduce."""

import math

import pytest

from zoo_core.spec.registry import registry
from zoo_core.train.job import trainer_of

PUBLISHED = {
    "mlp": 1_707_274,
    "cnn": 1_147_914,
    "resnet18": 11_173_962,
    "resnet18_finetune": 11_173_962,
    "nano_vit": 1_242_442,
    "nano_vit_p4": 1_212_490,
    "patch_lstm": 2_536_842,
    "fashion_cnn": 421_642,
    "fashion_resnet18": 11_172_810,
    "fashion_vit": 139_018,
    "mnist_cnn1": 3_870,
    "mnist_cnn2": 50_826,
    "resnet8": 98_346,
    "mnist_vit": 205_962,
    "fcn_numpy": 109_386,
    "lenet_numpy": 61_750,
    "vit_scratch": 44_854_538,
    "vae": 2_607_939,
    "vae_cluster": 2_607_939,
    "cvae": 2_651_459,
    "cvae_classifier": 2_692_429,
}


def test_zoo_list_shows_them_all_with_their_sizes(zoo_json):
    listed = {model["name"]: model["parameters"] for model in zoo_json("list")}
    assert {name: listed.get(name) for name in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_number_of_parameters_is_the_published_one(name):
    """Counted in what the trainer would allocate: nothing is, so the large ones cost nothing."""
    entry = registry().models.get(name)
    spec = trainer_of(entry).tensor_spec(entry, entry.options)
    # Buffers: statistics of batch norms, clusters and their names, the weight of a divergence.
    statistics = ("running_mean", "running_var", "num_batches_tracked", "centres", "names", "beta")
    counted = (shape for key, (shape, _) in spec.items() if not key.endswith(statistics))
    assert sum(math.prod(shape) for shape in counted) == PUBLISHED[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_it_has_a_recipe_that_repeats_and_one_that_is_ours(name):
    entry = registry().models.get(name)
    paper, default = entry.recipes["paper"], entry.recipes["default"]
    assert default.epochs <= paper.epochs
