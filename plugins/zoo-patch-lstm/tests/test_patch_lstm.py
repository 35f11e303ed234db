import pytest
import torch

import zoo

SMALL = {"image_size": 8, "width": 8, "hidden": 6, "dropout": 0.0}


def influence(read: str) -> torch.Tensor:
    """How much each patch changes what the backward half tells the head: (rows, columns)."""
    torch.manual_seed(0)
    model = zoo.create("patch_lstm", **SMALL, layers=1, read=read).eval()
    heard = []
    model.head.register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
    images = torch.randn(1, 3, 8, 8, requires_grad=True)
    model(images)
    heard[0][0, 6:].sum().backward()
    return images.grad[0].abs().sum(0).unfold(0, 2, 2).unfold(1, 2, 2).sum((-2, -1))


def test_the_last_time_step_of_the_backward_half_has_seen_one_patch():
    seen = influence("last") > 0
    assert seen[-1, -1] and seen.sum() == 1


def test_read_at_its_end_the_backward_half_has_seen_every_patch():
    assert (influence("ends") > 0).all()


def test_the_last_layer_sees_the_same_forward_half_either_way():
    torch.manual_seed(0)
    last = zoo.create("patch_lstm", **SMALL)
    ends = zoo.create("patch_lstm", **SMALL, read="ends")
    ends.load_state_dict(last.state_dict())
    heard = []
    for model in (last.eval(), ends.eval()):
        model.head.register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
        model(torch.ones(1, 3, 8, 8))
    assert torch.equal(heard[0][:, :6], heard[1][:, :6])
    assert not torch.allclose(heard[0][:, 6:], heard[1][:, 6:])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"patch_size": 5}, "patches of 5 pixels do not fill an image of 32"),
        ({"read": "middle"}, "read must be last, ends or mean"),
    ],
)
def test_options_that_cannot_work_say_why(options, reason):
    with pytest.raises(zoo.ZooError, match=reason):
        zoo.create("patch_lstm", **options)


def test_the_mean_hears_every_time_step_alike():
    torch.manual_seed(0)
    model = zoo.create("patch_lstm", **SMALL, read="mean").eval()
    heard = []
    model.lstm.register_forward_hook(lambda _, inputs, outputs: heard.append(outputs[0]))
    model.head.register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
    model(torch.randn(2, 3, 8, 8))
    states, read = heard
    assert states.shape == (2, 16, 12)
    assert torch.allclose(read, states.sum(1) / 16)


def test_memory_opens_the_forget_gates_and_no_others():
    torch.manual_seed(0)
    forgetful = zoo.create("patch_lstm", **SMALL).lstm
    torch.manual_seed(0)
    mindful = zoo.create("patch_lstm", **SMALL, memory=2.0).lstm
    for name, weights in mindful.named_parameters():
        changed = (weights != forgetful.get_parameter(name)).nonzero()
        expected = list(range(6, 12)) if name.startswith("bias_hh") else []
        assert changed[:, 0].tolist() == expected, name
        assert (weights[expected] == 2.0).all()


def reach(memory: float) -> float:
    """How much of what the last step says comes from the first row of patches."""
    torch.manual_seed(0)
    model = zoo.create("patch_lstm", **SMALL, layers=1, memory=memory).eval()
    heard = []
    model.head.register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
    images = torch.randn(8, 3, 8, 8, requires_grad=True)
    model(images)
    heard[0][:, :6].sum().backward()
    rows = images.grad.abs().sum((0, 1, 3)).unfold(0, 2, 2).sum(1)
    return float(rows[0] / rows.sum())


def test_with_memory_the_last_step_knows_more_of_the_first_row():
    assert reach(2.0) > 10 * reach(0.0)


def test_the_paper_reads_the_last_step_and_the_default_all_of_them():
    entry = zoo.info("patch_lstm")
    assert entry.recipes["paper"].model.get("read", entry.config["read"]) == "last"
    assert entry.recipes["default"].model == {"read": "mean", "memory": 2.0}
