import pytest
import torch

import zoo


def test_it_has_the_declared_number_of_parameters():
    model = zoo.create("mlp")
    assert sum(p.numel() for p in model.parameters()) == zoo.info("mlp").parameters == 1_707_274


def test_the_options_decide_the_shapes():
    model = zoo.create("mlp", num_classes=4, in_channels=1, image_size=8, hidden=[16], dropout=0.5)
    assert model(torch.zeros(3, 1, 8, 8)).shape == (3, 4)
    assert sum(p.numel() for p in model.parameters()) == 64 * 16 + 16 + 16 * 4 + 4


def test_without_hidden_layers_it_is_a_linear_classifier():
    model = zoo.create("mlp", hidden=[])
    assert sum(p.numel() for p in model.parameters()) == 3072 * 10 + 10


def test_a_misspelt_option_is_refused_with_the_right_one():
    with pytest.raises(zoo.ZooError, match="no option 'hiden'") as caught:
        zoo.create("mlp", hiden=[16])
    assert caught.value.hint == "did you mean hidden?"
