import pytest
import torch
from torch import nn
from zoo_vit.block import Attention, Block, Dropout
from zoo_vit.patches import cut

WIDTH, HEADS, HIDDEN = 24, 3, 40


def same_weights(block: Block, layer: nn.TransformerEncoderLayer) -> None:
    """Give torch's layer the weights of ours."""
    ours = block.attention
    theirs = layer.self_attn
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key_value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key_value.bias]))
    pairs = (
        (ours.out, theirs.out_proj),
        (block.norm1, layer.norm1),
        (block.norm2, layer.norm2),
        (block.mlp[0], layer.linear1),
        (block.mlp[3], layer.linear2),
    )
    for mine, other in pairs:
        other.load_state_dict(mine.state_dict())


@pytest.fixture(params=[(n, a) for n in ("pre", "post") for a in ("relu", "gelu")], ids="-".join)
def pair(request):
    """Our block and torch's layer, in float64, with the same random weights and biases."""
    norm, activation = request.param
    torch.manual_seed(3)
    block = Block(WIDTH, HEADS, HIDDEN, activation=activation, norm=norm).double()
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.3)
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=norm == "pre"
    ).double()
    same_weights(block, layer)
    return block, layer


def test_a_block_is_torchs_encoder_layer(pair):
    block, layer = pair
    ours = torch.randn(5, 7, WIDTH, dtype=torch.float64, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    torch.testing.assert_close(block(ours), layer(theirs), rtol=0, atol=1e-12)
    block(ours).square().sum().backward()
    layer(theirs).square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=1e-10)
    torch.testing.assert_close(
        torch.cat([block.attention.query.bias.grad, block.attention.key_value.bias.grad]),
        layer.self_attn.in_proj_bias.grad,
        rtol=0,
        atol=1e-10,
    )
    torch.testing.assert_close(
        block.mlp[0].weight.grad, layer.linear1.weight.grad, rtol=0, atol=1e-10
    )


def test_the_first_tokens_alone_are_the_first_of_all(pair):
    block, _ = pair
    tokens = torch.randn(5, 7, WIDTH, dtype=torch.float64)
    torch.testing.assert_close(block(tokens, first=2), block(tokens)[:, :2], rtol=0, atol=1e-12)


def test_the_attention_that_is_shown_is_the_one_that_is_used():
    torch.manual_seed(0)
    attention = Attention(WIDTH, HEADS).double()
    tokens = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    weights = attention.weights(tokens)  # (B, heads, N, N)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, 5, dtype=torch.float64))
    values = attention.key_value(tokens)[..., WIDTH:].unflatten(-1, (HEADS, -1))
    mixed = torch.einsum("bhij,bjhd->bihd", weights, values).flatten(2)
    torch.testing.assert_close(attention.out(mixed), attention(tokens), rtol=0, atol=1e-12)


def test_attention_in_16_bits_is_the_same_but_for_rounding():
    torch.manual_seed(0)
    attention = Attention(WIDTH, HEADS)
    tokens = torch.randn(2, 5, WIDTH)
    exact = torch.autograd.grad(attention(tokens).square().sum(), list(attention.parameters()))
    with torch.autocast("cpu", torch.bfloat16):
        rounded = attention(tokens)
    assert rounded.dtype == torch.bfloat16
    torch.testing.assert_close(rounded.float(), attention(tokens), rtol=0.02, atol=0.02)
    found = torch.autograd.grad(rounded.float().square().sum(), list(attention.parameters()))
    for one, other in zip(exact, found, strict=True):
        assert (one - other).norm() <= 0.03 * one.norm() + 1e-3


def test_it_starts_like_torchs_attention():
    torch.manual_seed(0)
    ours = Attention(192, 8)
    theirs = nn.MultiheadAttention(192, 8)
    spread = theirs.in_proj_weight.abs().max().item()
    assert ours.query.weight.abs().max().item() == pytest.approx(spread, rel=1e-3)
    assert ours.key_value.weight.std().item() == pytest.approx(
        theirs.in_proj_weight.std().item(), rel=0.02
    )
    assert not ours.out.bias.any() and not ours.query.bias.any()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_drops_as_many_as_it_should_and_keeps_the_mean(rate):
    torch.manual_seed(0)
    dropout = Dropout(rate)
    values = torch.ones(1000, 401)  # no multiple of the four values of a draw
    dropped = dropout(values)
    assert (dropped == 0).float().mean().item() == pytest.approx(rate, abs=0.004)
    assert dropped[dropped != 0].unique().tolist() == pytest.approx([1 / (1 - rate)])
    # Neighbours share a draw; they must not share a fate.
    a, b = dropped[:, 0] == 0, dropped[:, 1] == 0
    assert (a & b).float().mean().item() == pytest.approx(rate * rate, abs=0.05)


def test_dropout_is_nothing_in_evaluation_and_takes_part_in_the_gradient():
    dropout = Dropout(0.5)
    values = torch.randn(64, 64, requires_grad=True)
    result = dropout(values)
    result.sum().backward()
    assert torch.equal(values.grad != 0, result != 0)
    assert dropout.eval()(values) is values
    assert not Dropout(1.0)(values).any()


def test_dropout_is_the_same_from_the_same_seed():
    values = torch.randn(33, 5)
    results = []
    for _ in range(2):
        torch.manual_seed(7)
        results.append(Dropout(0.3)(values))
    assert torch.equal(*results)


def test_patches_are_those_of_a_convolution():
    torch.manual_seed(0)
    images = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    convolution = nn.Conv2d(3, 5, 4, stride=4).double()
    ours = cut(images, 4) @ convolution.weight.flatten(1).T + convolution.bias
    theirs = convolution(images).flatten(2).transpose(1, 2)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
