"""What weight decay shrinks: everything, or matrices alone."""

import pytest
import torch
from torch import nn

import zoo
from zoo_core.spec.settings import override
from zoo_core.torch.task import Classification, matrices, parameter_groups

TARGETS = zoo.Targets("class", tuple("0123456789"))


def shrunk(model: nn.Module) -> set[str]:
    """The names of the parameters that `decay=matrices` shrinks."""
    recipe = zoo.Recipe(optimizer="adamw", weight_decay=0.1, decay="matrices")
    made = Classification(model, recipe, TARGETS).make_optimizer("model")
    names = {p: name for name, p in model.named_parameters()}
    groups = [(g["weight_decay"], {names[p] for p in g["params"]}) for g in made.param_groups]
    assert set().union(*(group for _, group in groups)) == set(names.values())
    return set().union(*(group for decay, group in groups if decay == 0.1))


@pytest.mark.parametrize(
    "model, left_out",
    [
        ("nano_vit", ("bias", "norm", "class_token", "positions")),
        ("resnet18", ("bias", "bn", "downsample.1", "shortcut.1")),
        ("patch_lstm", ("bias", "positions", "head.0.")),
        ("vit_b16_finetune", ("bias", "ln_", "encoder.ln.", "class_token", "pos_embedding")),
    ],
)
def test_norms_biases_tokens_and_positions_do_not_decay(model, left_out):
    with torch.device("meta"):
        made = zoo.create(model).requires_grad_(True)
    found = shrunk(made)
    names = {name for name, _ in made.named_parameters()}
    assert found == {name for name in names if not any(word in name for word in left_out)}


def test_embeddings_and_what_a_module_names_do_not_decay():
    class Inner(nn.Module):
        no_decay = ("table",)

        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.zeros(4, 4))
            self.linear = nn.Linear(4, 4)

    model = nn.Sequential(nn.Embedding(5, 4), Inner())
    assert shrunk(model) == {"1.linear.weight"}


def test_all_is_one_group_as_before():
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    given = list(model.parameters())
    assert parameter_groups(model, given, "all") is given
    assert zoo.Recipe().decay == "all"
    with pytest.raises(zoo.ZooError, match="decay must be one of all, matrices"):
        override(zoo.Recipe(), {"decay": "some"})


def test_a_step_shrinks_matrices_alone():
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    recipe = zoo.Recipe(optimizer="adamw", lr=0.5, weight_decay=0.5, decay="matrices")
    optimizer = Classification(model, recipe, TARGETS).make_optimizer("model")
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for name, p in model.named_parameters():
        factor = 0.75 if name == "0.weight" else 1.0
        torch.testing.assert_close(p.detach(), factor * before[name])
    assert matrices(model, model.parameters()) == {model[0].weight}
