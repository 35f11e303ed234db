"""Any network of timm as a frozen backbone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import zoo


def frozen(
    *,
    backbone: str = "resnet18.a1_in1k",
    pooling: str = "",
    in_channels: int = 3,
    image_size: int = 224,
    backbone_weights: str = "",
    **head: Any,
) -> zoo.FrozenModel:
    """pooling: one of timm's, avg, max, token for example; "" for the network's own."""
    timm = _timm()
    extra: dict[str, Any] = {"global_pool": pooling} if pooling else {}
    if _config(backbone).fixed_input_size:  # its positions are those of an image of one size
        extra["img_size"] = image_size
    network = timm.create_model(
        backbone, pretrained=False, num_classes=0, in_chans=in_channels, **extra
    )
    if hasattr(network, "no_weight_decay"):  # timm's word; tables of positions for example
        network.no_decay = network.no_weight_decay()
    return zoo.FrozenModel(
        network,
        network.head_hidden_size if hasattr(network, "head_hidden_size") else network.num_features,
        name=f"timm {timm.__version__} {backbone}",
        layer="before the classifier",
        pooling=pooling or "its own",
        **head,
    )


def preprocess(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the weights of a network were trained with."""
    found = _config(config["backbone"])
    resizing = "bicubic" if found.interpolation == "bicubic" else "bilinear"
    return {
        "size": found.input_size[1], "channels": config["in_channels"], "mean": found.mean,
        "std": found.std, "interpolation": resizing,
    }  # fmt: skip


def tensors(config: Mapping[str, Any], say: Callable[[str], None]) -> dict[str, np.ndarray]:
    """The weights that timm has on the hub for a network, as safetensors."""
    name = config["backbone"]
    source = zoo.Pretrained(
        name=f"{name} of timm", hub=_config(name).hf_hub_id or "", option="backbone_weights"
    )
    return zoo.pretrained_tensors(source, config["backbone_weights"], say)


def _config(name: str) -> Any:
    timm = _timm()
    if not timm.is_model(name):
        import difflib

        close = difflib.get_close_matches(name, timm.list_models(), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(f"timm {timm.__version__} has no network {name!r}{hint}")
    return timm.get_pretrained_cfg(name)


def _timm() -> Any:
    try:
        import timm
    except ImportError as error:
        raise zoo.ZooError("timm is not installed", "pip install zoo-frozen[timm]") from error
    return timm
