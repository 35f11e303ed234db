import pytest
import torch

import zoo

IMAGENET = {"num_classes": 1000, "image_size": 64, "stem": "imagenet"}


def shaken(model: torch.nn.Module) -> torch.nn.Module:
    """Random running statistics too, so that every tensor of the state matters."""
    torch.manual_seed(1)
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if key.endswith("running_var"):
                tensor.uniform_(0.5, 2)
            elif key.endswith(("running_mean", "bias")):
                tensor.normal_(std=0.1)
    return model.eval()


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_other_libraries_weights_fit_by_name_and_give_the_same_outputs(library):
    if library == "torchvision":
        from torchvision.models import resnet18
    else:
        from timm.models.resnet import resnet18
    theirs = shaken(resnet18())
    ours = zoo.create("resnet18", **IMAGENET).eval()
    ours.load_state_dict(theirs.state_dict(), strict=True)
    images = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(ours(images), theirs(images), rtol=1e-4, atol=1e-4)


def test_the_stems_keep_as_many_pixels_as_they_say():
    images = torch.zeros(1, 3, 32, 32)
    for stem, side in (("small", 32), ("pooled", 32), ("imagenet", 8)):
        model = zoo.create("resnet18", stem=stem, channels=(4, 8), depths=(1, 1))
        maps = model.maxpool(model.conv1(images))
        assert maps.shape == (1, 4, side, side)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"stem": "huge"}, "stem must be small, pooled or imagenet"),
        ({"depths": (2, 2)}, "must be of the same length"),
        ({"shortcut": 2}, "shortcut must be an odd kernel size"),
    ],
)
def test_options_that_cannot_work_say_why(options, reason):
    with pytest.raises(zoo.ZooError, match=reason):
        zoo.create("resnet18", **options)
