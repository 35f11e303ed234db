import pytest
import torch

import zoo


def test_it_has_the_declared_number_of_parameters():
    model = zoo.create("cnn")
    assert sum(p.numel() for p in model.parameters()) == zoo.info("cnn").parameters == 1_147_914


def test_the_options_decide_the_shapes():
    model = zoo.create(
        "cnn",
        num_classes=4,
        in_channels=1,
        image_size=28,
        channels=[8, 16],
        kernel_size=5,
        hidden=12,
        batch_norm=False,
    )
    assert model(torch.zeros(3, 1, 28, 28)).shape == (3, 4)
    assert not any(isinstance(layer, torch.nn.BatchNorm2d) for layer in model.modules())
    assert sum(p.numel() for p in model.parameters()) == (
        (25 * 8 + 8) + (25 * 8 * 16 + 16) + (16 * 7 * 7 * 12 + 12) + (12 * 4 + 4)
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"image_size": 4}, "4 pixels are too few"), ({"kernel_size": 2}, "must be odd")],
)
def test_options_that_cannot_work_say_why(options, reason):
    with pytest.raises(zoo.ZooError, match=reason):
        zoo.create("cnn", **options)


@pytest.mark.parametrize(
    ("name", "size"), [("fashion_cnn", 3), ("mnist_cnn1", 7), ("mnist_cnn2", 15)]
)
def test_pictures_that_are_too_small_are_refused(name, size):
    with pytest.raises(zoo.ZooError, match=f"{size} pixels are too few"):
        zoo.create(name, image_size=size)
    assert zoo.create(name, image_size=size + 1)(
        torch.zeros(1, 1, size + 1, size + 1)
    ).shape == (1, 10)  # fmt: skip


@pytest.mark.parametrize(("name", "count"), [("fashion_cnn", 3), ("mnist_cnn2", 4)])
def test_the_activation_is_an_option(name, count):
    layers = list(zoo.create(name, activation="leaky_relu").modules())
    assert sum(isinstance(layer, torch.nn.LeakyReLU) for layer in layers) == count
    assert not any(isinstance(layer, torch.nn.ReLU) for layer in layers)
    with pytest.raises(zoo.ZooError, match="activation must be relu or leaky_relu"):
        zoo.create(name, activation="swish")
