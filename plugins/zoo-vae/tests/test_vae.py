"""The autoencoders do what they say, each of them, on images small enough to be quick."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from zoo_vae.clusters import VAEClusters, VAEClustersTask, k_means, vote
from zoo_vae.cvae import CVAE, CVAETask
from zoo_vae.cvae_classifier import CVAEClassifier, CVAEClassifierTask
from zoo_vae.drawing import CODES, draw_codes, draw_reconstructions
from zoo_vae.task import bits_per_dimension, kl_to_normal, squared_error
from zoo_vae.vae import VAE, VAETask
from zoo_vae.vqvae import VQVAE, Codebook, VQVAETask

import zoo

SMALL = {"image_size": 8, "latent": 4}


def batch(count=6, size=8, seed=0):
    rng = torch.Generator().manual_seed(seed)
    images = torch.rand(count, 3, size, size, generator=rng)
    return zoo.Batch(images, torch.arange(count) % 3, np.arange(count))


def figures_of(task, model, *batches):
    with torch.inference_mode():
        return task.evaluate(model.eval(), iter(batches), lambda sums: sums)


# ---------------------------------------------------------------- figures


def test_the_kl_divergence_is_that_of_the_distributions():
    mu, log_variance = torch.randn(5, 7), torch.randn(5, 7)
    one = torch.distributions.Normal(mu, (0.5 * log_variance).exp())
    wanted = torch.distributions.kl_divergence(one, torch.distributions.Normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(kl_to_normal(mu, log_variance), wanted)


def test_the_kl_divergence_of_codes_in_16_bits_is_summed_in_32():
    torch.manual_seed(0)
    mu, log_variance = torch.randn(3, 128).bfloat16(), torch.randn(3, 128).bfloat16()
    wanted = kl_to_normal(mu.float(), log_variance.float())
    torch.testing.assert_close(kl_to_normal(mu, log_variance), wanted, rtol=1e-6, atol=0)


def test_bits_per_dimension_are_those_of_a_gaussian_over_256_steps():
    rng = np.random.default_rng(0)
    error = rng.normal(0, 0.1, 200_000)
    density = np.exp(-(error**2) / (2 * 0.01)) / math.sqrt(2 * math.pi * 0.01)
    wanted = -np.log2(density / 256).mean() + 3 / (10 * math.log(2))
    assert bits_per_dimension(float((error**2).mean()), 3, 10) == pytest.approx(wanted, abs=5e-3)


def test_the_error_is_of_pixels_from_0_to_1_whatever_the_model_is_given():
    torch.manual_seed(0)
    unit, wide = VAE(**SMALL), VAE(**SMALL, output="tanh")
    wide.load_state_dict(unit.state_dict())
    with torch.no_grad():  # tanh(x) is 2 sigmoid(2 x) - 1: the same image, in the other range
        wide.decoder[-1][0].weight.mul_(0.5)
        wide.decoder[-1][0].bias.mul_(0.5)
    one, other = batch(), batch()
    wide.encoder = nn.Sequential(Halves(), wide.encoder)
    other = replace(other, images=other.images * 2 - 1)
    recipe = zoo.Recipe()
    a = figures_of(VAETask(unit, recipe, ()), unit, one)
    b = figures_of(VAETask(wide, recipe, ()), wide, other)
    for name in ("mse", "reconstruction_mse", "bits_per_dim", "kl"):
        assert a[name] == pytest.approx(b[name], rel=1e-4), name


class Halves(nn.Module):
    def forward(self, images):
        return (images + 1) / 2


def test_an_unused_code_is_said():
    task = VAETask(VAE(**SMALL), zoo.Recipe(), ())
    assert "hardly used" in task.remarks([{"train_kl": 0.05}])[0]
    assert task.remarks([{"train_kl": 20.0}]) == [] == task.remarks([])


# ---------------------------------------------------------------- labels


def test_a_label_is_judged_by_the_loss_of_each_picture_alone():
    """The work that this repeats averaged over the batch, and so was right one time in ten."""
    torch.manual_seed(0)
    model = CVAE(num_classes=3, **SMALL)
    CVAETask(model, zoo.Recipe(task={"beta": 2.0}), ("a", "b", "c")).start(model)
    model.eval()
    pictures = batch(4)
    with torch.inference_mode():
        together = model(pictures.images)
        for row, image in enumerate(pictures.images):
            for label in range(3):
                named = torch.tensor([label])
                mu, log_variance = model.encode(model.encoder(image[None]), named)
                error = squared_error(model.decode(mu, named), image[None])
                loss = error + 2.0 * kl_to_normal(mu, log_variance)
                torch.testing.assert_close(-2.0 * together[row, label], loss[0])
        assert len({tuple(row.tolist()) for row in together}) == 4


def test_only_some_pictures_are_classified_after_an_epoch():
    model = CVAE(num_classes=3, **SMALL)
    seen = []
    model.register_forward_hook(lambda *_: seen.append(1))
    for limit, calls in ((0, 0), (5, 1), (100, 3)):
        seen.clear()
        task = CVAETask(model, zoo.Recipe(task={"classified": limit}), ("a", "b", "c"))
        found = figures_of(task, model, *(batch(seed=i) for i in range(3)))
        assert len(seen) == calls
        assert ("accuracy" in found) == (calls > 0)


# ---------------------------------------------------------------- clusters


def test_clusters_are_named_by_the_training_set_and_name_new_pictures():
    model = VAEClusters(num_classes=3, clusters=3, **SMALL)
    places = torch.tensor([[9.0, 0, 0, 0], [0, 9.0, 0, 0], [0, 0, 9.0, 0]])
    model.encode = lambda images: (places[images[:, 0, 0, 0].long()], None)

    def pictures(kinds, labels):
        images = torch.zeros(len(kinds), 3, 8, 8) + torch.tensor(kinds)[:, None, None, None]
        return zoo.Batch(images, torch.tensor(labels), np.arange(len(kinds)))

    task = VAEClustersTask(model, zoo.Recipe(), ("a", "b", "c"))
    # Place 0 is called c by three of four, place 1 is called a, place 2 is called a as well.
    task.finish(model, iter([pictures([0, 0, 0, 0, 1, 1, 2, 2], [2, 2, 2, 1, 0, 0, 0, 0])]))
    scores = model(torch.arange(3.0)[:, None, None, None].expand(3, 3, 8, 8))
    assert scores.argmax(1).tolist() == [2, 0, 0]
    assert (scores[:, 1] < scores.min(1).values + 1).all()  # nothing is called b
    assert torch.isfinite(scores).all()


def test_k_means_gives_the_same_bits_again():
    codes = np.random.default_rng(0).normal(size=(500, 6)).astype(np.float32)
    (one, members), (two, _) = k_means(codes, 4, 0), k_means(codes, 4, 0)
    assert np.array_equal(one, two)
    nearest = ((codes[:, None] - one) ** 2).sum(2).argmin(1)
    assert (nearest == members).mean() > 0.99
    assert vote(members, np.zeros(500, int), 4, 3).tolist() == [0, 0, 0, 0]


# ---------------------------------------------------------------- codes


def test_the_gradient_goes_straight_through_the_codebook():
    torch.manual_seed(0)
    model = VQVAE(image_size=8, codes=8, width=4).train()
    task = VQVAETask(model, zoo.Recipe(task={"beta": 0.0}), ())
    seen = {}
    hooks = [
        model.encoder.register_full_backward_hook(lambda m, i, o: seen.update(maps=o[0])),
        model.decoder.register_full_backward_hook(lambda m, i, o: seen.update(back=i[0])),
    ]
    pictures = batch()
    pictures.images.requires_grad_()  # for the hooks alone
    torch.autograd.backward(task.losses(model, pictures)["loss"].mean())
    for hook in hooks:
        hook.remove()
    assert seen["maps"].abs().sum() > 0
    torch.testing.assert_close(seen["maps"], seen["back"])
    assert model.codebook.codes.grad is None  # it follows averages
    by_gradient = VQVAETask(model, zoo.Recipe(task={"decay": 0.0}), ())
    torch.autograd.backward(by_gradient.losses(model, batch())["loss"].mean())
    assert model.codebook.codes.grad.abs().sum() > 0
    assert any(p is model.codebook.codes for p in by_gradient.parameters("model"))
    assert all(p is not model.codebook.codes for p in task.parameters("model"))


def test_codes_move_to_what_they_stand_for_and_dead_ones_begin_again():
    torch.manual_seed(0)
    book = Codebook(4, 2)
    with torch.no_grad():
        book.codes.copy_(torch.tensor([[0.0, 0], [50, 50], [60, 60], [70, 70]]))
    maps = torch.randn(16, 2, 4, 4) + torch.tensor([3.0, 0.0])[:, None, None]
    book.follow(maps, book(maps)[1], 0.9, True)
    assert (book.codes[1:] < 10).all()  # they are vectors of the batch now
    for _ in range(300):
        book.follow(maps, book(maps)[1], 0.9, True)
    numbers = book(maps)[1].flatten()
    vectors = maps.movedim(1, 3).flatten(0, 2)
    assert set(numbers.tolist()) == {0, 1, 2, 3}
    for code in range(4):
        mean = vectors[numbers == code].mean(0)
        torch.testing.assert_close(book.codes[code], mean, atol=0.1, rtol=0.1)


def test_a_dead_codebook_is_said_and_use_is_measured():
    model = VQVAE(image_size=8, codes=8, width=4)
    with torch.no_grad():
        model.codebook.codes.fill_(1e3)
        model.codebook.codes[5] = 0.0
    found = figures_of(VQVAETask(model, zoo.Recipe(), ()), model, batch())
    assert found["codes_used"] == 1 / 8
    assert found["perplexity"] == pytest.approx(1)
    remark = VQVAETask(model, zoo.Recipe(), ()).remarks([{"test_codes_used": 0.125}])
    assert "12%" in remark[0]


# ---------------------------------------------------------------- plots


@pytest.mark.parametrize("classes", [2, 100])
def test_codes_fill_a_square_and_leave_the_legend_outside(classes):
    rng = np.random.default_rng(0)
    labels = np.arange(400) % classes
    places = rng.normal(size=(400, 2)) * (9, 3)
    colourings = {"true class": labels, "predicted class": labels[::-1]}
    names = [f"a rather long name {i}" for i in range(classes)]
    figure = draw_codes(places, colourings, names, "t-SNE")
    figure.draw_without_rendering()
    for axes in figure.axes:
        box = axes.get_window_extent()
        assert box.width == pytest.approx(box.height, rel=0.01)
        assert axes.get_aspect() == 1
        points = np.concatenate([one.get_offsets() for one in axes.collections])
        assert len(points) == 400
        sides = np.ptp(points, axis=0).max(), np.ptp(axes.get_xlim()), np.ptp(axes.get_ylim())
        assert 0.8 < sides[0] / sides[1] < 1 and sides[1] == pytest.approx(sides[2])
    legend = figure.axes[-1].get_legend()
    assert len(legend.get_texts()) == classes
    inside = legend.get_window_extent()
    assert inside.x0 >= figure.axes[-1].get_window_extent().x1
    assert inside.height <= figure.axes[-1].get_window_extent().height
    marks = {(tuple(h.get_facecolor()[0]), h.get_paths()[0].vertices.tobytes())
             for h in legend.legend_handles}  # fmt: skip
    assert len(marks) == classes  # no two classes look alike


@pytest.mark.parametrize("count, channels", [(3, 1), (20, 3)])
def test_each_image_stands_above_its_reconstruction(count, channels):
    images = np.linspace(0, 0.5, count)[:, None, None, None] * np.ones((1, channels, 8, 8))
    (axes,) = draw_reconstructions(images, images + 0.5).axes
    shown = np.asarray(axes.images[0].get_array()).reshape(-1, 12 * min(count, 8), channels)
    for i in range(count):
        row, column = divmod(i, 8)
        y, x = 24 * row + 6, 12 * column + 6
        assert shown[y, x] == pytest.approx(images[i, :, 0, 0])
        assert shown[y + 12, x] == pytest.approx(images[i, :, 0, 0] + 0.5)


@pytest.mark.parametrize(
    "model, task",
    [
        (VAE(**SMALL, output="tanh"), VAETask),
        (CVAE(num_classes=3, **SMALL), CVAETask),
        (CVAEClassifier(num_classes=3, **SMALL), CVAEClassifierTask),
        (VQVAE(image_size=8, codes=8, width=4), VQVAETask),
    ],
)
def test_every_autoencoder_has_plots_of_a_few_images(model, task, monkeypatch):
    drawn = {}
    monkeypatch.setattr("zoo_vae.task.places_of", lambda codes: codes[:, :2])
    monkeypatch.setattr("zoo_vae.task.draw_codes", lambda *given: drawn.update(codes=given))
    monkeypatch.setattr(
        "zoo_vae.task.draw_reconstructions", lambda *given: drawn.update(back=given)
    )
    made = task(model.eval(), zoo.Recipe(), zoo.Targets("class", ("a", "b", "c")))
    taken = []

    def batches():
        for i in range(5):
            taken.append(i)
            yield batch(CODES // 2 - 5, seed=i)

    with torch.inference_mode():
        found = made.plots(model, batches())
    assert list(found) == ["reconstructions", "codes"]
    assert len(taken) == 4  # the third has the rest of the codes; the fourth is only looked at
    images, back = drawn["back"]
    low = -1 if isinstance(model, VAE) else 0
    wanted = (batch(24).images.numpy() - low) / (1 - low)
    assert images.shape == back.shape and images == pytest.approx(wanted)
    places, colourings, names, _ = drawn["codes"]
    assert len(places) == CODES and names == ("a", "b", "c")
    assert list(colourings) == ["true class", "predicted class"][: 1 + bool(task.answers)]
    assert all(len(labels) == CODES for labels in colourings.values())
    few = zoo.Targets("numbers", ("size",))
    with torch.inference_mode():
        assert list(task(model, zoo.Recipe(), few).plots(model, batches())) == ["reconstructions"]


# ---------------------------------------------------------------- whole trainings


def test_clusters_change_nothing_of_how_a_vae_learns(tmp_path):
    few = {"epochs": 1, "batch_size": 16, "data": {"train_size": 48, "test_size": 16}}
    plain, clustered = (
        zoo.load(
            zoo.train(
                name, "synthetic", runs=tmp_path, quiet=True,
                settings={**few, "model": {**SMALL, **options}},
            ).path
        ).state_dict()
        for name, options in (("vae", {}), ("vae_cluster", {"clusters": 3}))
    )  # fmt: skip
    assert clustered.keys() - plain.keys() == {"centres", "names"}
    assert all(torch.equal(clustered[name], tensor) for name, tensor in plain.items())


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "model, settings, sentence",
    [
        ("vae", {"preprocess": {"mean": 0.5, "std": 0.5}}, "mean=0 and preprocess.std=1"),
        ("vae", {"model": {"output": "tanh"}}, "preprocess.mean=0.5 and preprocess.std=0.5"),
        ("vae", {"model": {"image_size": 20}}, "multiple of 8, not 20"),
        ("vae", {"mixup": 0.2}, "mixed images"),
        ("vae", {"task": {"gamma": 1}}, "no option 'gamma'"),
    ],
)
def test_what_cannot_work_is_refused_in_a_sentence(model, settings, sentence, tmp_path):
    with pytest.raises(zoo.ZooError, match=sentence):
        zoo.train(model, "synthetic", runs=tmp_path / "runs", quiet=True, settings=settings)
    assert not (tmp_path / "runs").exists()
