import numpy as np
import pytest
import torch
from zoo_vit.attention import class_attention

import zoo


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        (
            "nano_vit_p4",
            {"patch_size": 5},
            "patches of 5 pixels do not fill an image of 32; try 4",
        ),
        (
            "fashion_vit",
            {"image_size": 30},
            "patches of 7 pixels do not fill an image of 30; try 6",
        ),
        ("vit_scratch", {"image_size": 100}, "patches of 16 pixels do not fill"),
        ("nano_vit", {"heads": 5}, "5 heads cannot share a width of 192 evenly"),
        ("nano_vit", {"norm": "both"}, "norm must be pre or post"),
        ("nano_vit", {"activation": "tanh"}, "activation must be relu or gelu"),
        ("nano_vit", {"positions": "ones"}, "positions must be zeros or normal"),
        ("nano_vit", {"depth": 0}, "depth must be a whole number, 1 to 128"),
        ("vit_scratch", {"pool": "max"}, "pool must be class or mean"),
    ],
)
def test_options_that_cannot_work_say_why(name, options, reason):
    with pytest.raises(zoo.ZooError, match=reason):
        zoo.create(name, **options)


def test_a_picture_has_no_influence_on_the_others_of_its_batch():
    """Attention over the batch instead of the tokens is how the original of fashion_vit failed."""
    torch.manual_seed(0)
    model = zoo.create("fashion_vit").eval()
    images = torch.randn(4, 1, 28, 28)
    with torch.inference_mode():
        together = model(images)
        alone = torch.cat([model(image[None]) for image in images])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)


def test_the_order_of_patches_matters_once_there_are_positions():
    torch.manual_seed(0)
    model = zoo.create("nano_vit_p4", positions="normal").eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        assert not torch.allclose(model(images), model(images.flip(2)), atol=1e-3)


def test_the_norm_of_vit_scratch_is_shared_by_all_layers():
    model = zoo.create("vit_scratch", image_size=32, width=48, depth=3, hidden=64)
    norms = [key for key in model.state_dict() if key.endswith("norm.weight")]
    assert norms == ["norm.weight"]
    assert len([m for m in model.modules() if isinstance(m, torch.nn.LayerNorm)]) == 2 + 3 + 1


@pytest.mark.parametrize("pool", ["class", "mean"])
def test_vit_scratch_pools_what_it_says(pool):
    torch.manual_seed(0)
    model = zoo.create("vit_scratch", image_size=32, width=48, depth=2, hidden=64, pool=pool).eval()
    images = torch.randn(2, 3, 32, 32)
    seen = []
    model.norm.register_forward_hook(lambda _, __, output: seen.append(output))
    with torch.inference_mode():
        logits = model(images)
        assert seen[-1].shape == (2, 1 if pool == "class" else 5, 48)
        torch.testing.assert_close(logits, model.head(seen[-1].mean(1)))


@pytest.mark.parametrize(
    ("name", "options", "shape"),
    [
        ("nano_vit_p4", {}, (4, 2, 8, 8, 8)),
        (
            "vit_scratch",
            {"image_size": 64, "width": 48, "depth": 2, "hidden": 64},
            (2, 2, 12, 4, 4),
        ),
    ],
)
def test_attention_is_shared_out_among_the_patches(name, options, shape):
    torch.manual_seed(0)
    model = zoo.create(name, **options)
    size = options.get("image_size", 32)
    maps = class_attention(model, torch.randn(2, 3, size, size))
    assert maps.shape == shape and maps.dtype == np.float32
    total = maps.sum((-2, -1))
    assert (maps > 0).all() and (total < 1).all() and (total > 0.5).all()


def test_attention_finds_the_patch_that_the_class_token_asks_for():
    """A model whose keys see brightness alone, and whose class token asks for it."""
    model = zoo.create("fashion_vit", depth=1, heads=1, dropout=0.0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.embed.weight[0] = 1.0  # the first feature of a patch is how bright it is
        model.class_token[0, 0, 1] = 1.0
        attention = model.blocks[0].attention
        attention.query.weight[0, 1] = 8.0
        attention.key_value.weight[0, 0] = 1.0
    image = torch.zeros(1, 1, 28, 28)
    image[0, 0, 14:21, 7:14] = 1.0  # row 2, column 1
    maps = class_attention(model, image)[0, 0, 0]
    assert maps[2, 1] > 0.9
