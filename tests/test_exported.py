"""Every classifier that the zoo ships, exported: a stranger's lines say what zoo predict says."""

import pytest
from hub.test_export import compare, photographs, stranger

import zoo
from zoo_core.weights.manifest import all_weights

SHIPPED = [weights.name for _, weights in all_weights()[0] if weights.classes]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_classifier_says_the_same_of_1000_images(name, tmp_path):
    classify, model = stranger(zoo.export(name, tmp_path / "model.onnx").path), zoo.load(name)
    split, side = zoo.open_dataset(model.zoo.dataset).test, model.zoo.preprocess.stored_size
    for sides, allowed in ((None, 1e-4), ((side // 2, 4 * side), 1e-2)):
        files = photographs(tmp_path, split.images[:1000], sides)
        worst, wrong = compare(classify, model, files)
        assert worst < allowed and not wrong, f"{worst:.1e}, {wrong} classes"
