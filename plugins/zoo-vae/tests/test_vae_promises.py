import pytest

from zoo_core.testing.any_model import check_counts, check_training

SMALL = {"image_size": 8, "latent": 4}
MODELS = {
    "vae": SMALL,
    "vae_cluster": {**SMALL, "clusters": 3},
    "cvae": SMALL,
    "cvae_classifier": SMALL,
    "vqvae": {"image_size": 8, "codes": 8, "width": 4},
}


@pytest.mark.parametrize("check", [check_counts, check_training])
@pytest.mark.parametrize("name", MODELS)
def test_it_keeps_its_promises(name, check):
    check(name, **MODELS[name])
