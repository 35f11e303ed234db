"""A model as the file that a page computes with: what zoo.export writes, and one output more.

`seen` is the image as the network sees it: resized and cut, before it is normalised.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo import kit

LIMIT = 200_000_000  # bytes that a page may ask a person to load


def export(model: Any, folder: Path) -> dict[str, Any]:
    """Writes model.onnx into the folder."""
    path = folder / "model.onnx"
    zoo.export(model, path)
    seen = show_what_is_seen(path)
    bytes_ = path.stat().st_size
    if bytes_ > LIMIT:
        raise zoo.UsageError(f"its file has {kit.size(bytes_)}, too much for a page")
    return {"sha256": kit.file_digest(path), "bytes": bytes_, "seen": seen}


def show_what_is_seen(path: Path) -> bool:
    """Add the output; False where the file prepares images in a way that is not known here.

    The file normalises with one product and one sum, whose numbers its metadata tells. What goes
    into the product is what the network sees, in levels of 0 to 255.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load(path)
    graph = model.graph
    told = next(json.loads(one.value) for one in model.metadata_props if one.key == "zoo")
    deviations = np.asarray(told["preprocess"]["std"]).reshape(-1, 1, 1)
    wanted = (1 / (255 * deviations)).astype(np.float32)
    constants = {one.name: one for one in graph.initializer}

    def scales(node: Any) -> bool:
        if node.op_type != "Mul" or node.input[1] not in constants:
            return False
        found = numpy_helper.to_array(constants[node.input[1]])
        return found.shape == wanted.shape and bool(np.array_equal(found, wanted))

    node = next(filter(scales, graph.node), None)
    if node is None:
        return False
    three = np.array([1, 3, 1, 1], np.int64)  # grey is shown as three equal colours
    graph.initializer.append(numpy_helper.from_array(three, "seen/shape"))
    steps = [
        helper.make_node("Expand", [node.input[0], "seen/shape"], ["seen/colours"]),
        helper.make_node("Round", ["seen/colours"], ["seen/whole"]),
        helper.make_node("Clip", ["seen/whole", "seen/low", "seen/high"], ["seen/levels"]),
        helper.make_node("Cast", ["seen/levels"], ["seen/bytes"], to=TensorProto.UINT8),
        helper.make_node("Transpose", ["seen/bytes"], ["seen"], perm=[0, 2, 3, 1]),
    ]
    for name, value in (("seen/low", 0.0), ("seen/high", 255.0)):
        graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    graph.node.extend(steps)
    size = ("batch", None, None, 3)
    graph.output.append(helper.make_tensor_value_info("seen", TensorProto.UINT8, size))
    onnx.save(model, path)
    return True
