import functools
import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo_core.data.dataset import Split
from zoo_core.data.loader import Batch, Loader
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.errors import UsageError

N = 53  # not a multiple of any batch size below
RNG = np.random.default_rng(1)
SPLIT = Split(RNG.integers(0, 256, (N, 10, 10, 3), dtype=np.uint8), RNG.integers(0, 7, N))
PREPROCESS = Preprocess(10, 3, (0.49, 0.48, 0.45), (0.25, 0.24, 0.26))
LARGER = Preprocess(14, 3, (0.49, 0.48, 0.45), (0.25, 0.24, 0.26))

SETTINGS = {
    "plain": {},
    "in order": {"shuffle": False},
    "flip and crop": {"augment": ("flip", "crop:3")},
    "shift and cutout": {"augment": ("shift:2", "cutout:4")},
    "affine": {"augment": ("affine:rotate=20,shift=2,scale=0.2", "flip")},
    "resized crop": {"augment": ("flip", "resized_crop:14"), "preprocess": LARGER},
    "resized": {"augment": ("flip",), "preprocess": LARGER},
    "mixed": {"augment": ("flip", "crop:3", "cutmix:1"), "mixup": 0.3},
    "a part, mixed": {"indices": np.arange(3, 40), "mixup": 0.3, "drop_last": True},
    "erase": {"augment": ("crop:3", "erase:0.5"), "mixup": 0.3},
    "channels last": {"augment": ("flip", "crop:3"), "channels_last": True},
    "pairs": {"augment": ("resized_crop:0", "flip", "erase:0.5"), "pairs": True},
    "pairs, mixed": {"augment": ("flip", "crop:3", "cutmix:1"), "pairs": True},
}


def loader(name="plain", **options):
    given = {"batch_size": 8, "preprocess": PREPROCESS, "seed": 5, **SETTINGS[name], **options}
    return Loader(SPLIT, **given)


@functools.cache
def expected(name, backend, epoch):
    """Every batch of an epoch, each from a loader that made nothing else."""
    count = len(loader(name, backend=backend))
    return [loader(name, backend=backend).batch(epoch, k) for k in range(count)]


def same(a, b):
    """Bit for bit."""
    for field in (
        "images",
        "labels",
        "indices",
        "mixed_labels",
        "mixed_indices",
        "weight",
        "second",
    ):
        x, y = getattr(a, field), getattr(b, field)
        if x is None or y is None:
            if x is not y:
                return False
        elif x.shape != y.shape or np.asarray(x).tobytes() != np.asarray(y).tobytes():
            return False
    return True


def join(parts):
    """The batch that several shards hold together."""
    joined = {}
    for field in (
        "images",
        "labels",
        "indices",
        "mixed_labels",
        "mixed_indices",
        "weight",
        "second",
    ):
        values = [getattr(part, field) for part in parts]
        given = values[0] is not None
        joined[field] = np.concatenate([np.asarray(v) for v in values]) if given else None
    return Batch(**joined)


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(sorted(SETTINGS)),
    backend=st.sampled_from(("numpy", "torch")),
    world=st.sampled_from((1, 2, 4)),
    visits=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), min_size=1, max_size=6),
)
def test_a_batch_is_the_same_alone_after_any_others_and_in_any_number_of_shards(
    name, backend, world, visits
):
    shards = [loader(name, backend=backend, shard=(rank, world)) for rank in range(world)]
    for epoch, number in visits:
        number %= len(shards[0])
        parts = [shard.batch(epoch, number) for shard in shards]
        assert same(join(parts), expected(name, backend, epoch)[number])


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_resuming_in_the_middle_of_an_epoch_continues_it(name, backend):
    rest = list(loader(name, backend=backend).epoch(1, start=2))
    assert len(rest) == len(loader(name)) - 2
    assert all(map(same, rest, expected(name, backend, 1)[2:]))


@pytest.mark.parametrize("name", ["plain", "in order", "flip and crop", "mixed"])
def test_every_picture_comes_once_in_an_epoch(name):
    batches = list(loader(name).epoch(0))
    assert [len(batch) for batch in batches] == [8, 8, 8, 8, 8, 8, 5]
    indices = np.concatenate([batch.indices for batch in batches])
    assert np.array_equal(np.sort(indices), np.arange(N))
    assert (indices[:10] == np.arange(10)).all() == (name == "in order")
    for batch in batches:
        assert np.array_equal(batch.labels, SPLIT.labels[batch.indices])


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_a_second_version_is_drawn_apart_and_changes_nothing_of_the_first(backend):
    words = {"augment": ("flip", "crop:3"), "backend": backend}
    both = loader(**words, pairs=True).batch(2, 1)
    alone = loader(**words).batch(2, 1)
    assert alone.second is None and np.array_equal(both.images, alone.images)
    assert both.second.shape == both.images.shape
    # Every picture differs: of 98 flips and shifts, no picture here drew the same one twice.
    assert (np.asarray(both.images) != np.asarray(both.second)).any((1, 2, 3)).all()
    plain = loader(augment=(), backend=backend, pairs=True).batch(2, 1)
    assert np.array_equal(plain.images, plain.second)
    parts = both.split(3)
    assert np.array_equal(np.concatenate([part.second for part in parts]), both.second)


def test_orders_and_pictures_differ_between_epochs_and_seeds():
    orders = {
        np.concatenate([b.indices for b in loader(seed=seed).epoch(epoch)]).tobytes()
        for seed in (0, 1)
        for epoch in (0, 1, 2)
    }
    assert len(orders) == 6
    first = loader("flip and crop", shuffle=False).batch(0, 0)
    second = loader("flip and crop", shuffle=False).batch(1, 0)
    assert np.array_equal(first.indices, second.indices)
    assert not torch.equal(first.images, second.images)


def test_the_last_batch_is_kept_or_dropped_by_choice():
    assert [len(batch) for batch in loader(drop_last=True).epoch(0)] == [8] * 6
    assert len(loader(drop_last=True)) == 6 and len(loader()) == 7


def test_more_shards_than_pictures_leave_empty_parts_of_the_right_shape():
    for name in ("plain", "affine", "mixed"):
        parts = [loader(name, shard=(rank, 4), indices=np.array([9])) for rank in range(4)]
        batches = [part.batch(0, 0) for part in parts]
        assert [len(batch) for batch in batches] == [0, 0, 0, 1]
        assert batches[0].images.shape == (0, 3, 10, 10)
        assert batches[0].labels.shape == (0,)


def test_pictures_are_normalised_as_usual_and_in_the_memory_format_asked_for():
    batch = loader(shuffle=False, batch_size=N).batch(0, 0)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (PREPROCESS.mean, PREPROCESS.std))
    usual = (torch.from_numpy(SPLIT.images).permute(0, 3, 1, 2) / 255 - mean) / std
    assert torch.allclose(batch.images, usual, atol=1e-5)
    assert batch.images.dtype == torch.float32 and batch.images.is_contiguous()
    assert batch.labels.dtype == torch.int64
    last = loader("channels last", shuffle=False, augment=()).batch(0, 0)
    assert last.images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(last.images, batch.images[:8])
    both = loader("channels last").batch(0, 0), loader("flip and crop").batch(0, 0)
    assert torch.equal(both[0].images, both[1].images)


def test_pictures_without_labels_come_without_labels():
    for mixup in (0.0, 0.5):
        batch = Loader(
            Split(SPLIT.images, None), batch_size=8, preprocess=PREPROCESS, mixup=mixup
        ).batch(0, 0)
        assert batch.labels is None and batch.mixed_labels is None
        assert batch.images.shape == (8, 3, 10, 10)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_grey_and_colour_are_exchanged_where_the_model_needs_it(backend):
    grey = Split(SPLIT.images[..., :1].copy(), None)
    colour = Preprocess(10, 3, (0.5,), (0.5,), stored_channels=1)
    images = (
        Loader(grey, batch_size=N, preprocess=colour, shuffle=False, backend=backend)
        .batch(0, 0)
        .images
    )
    assert images.shape == (N, 3, 10, 10)
    assert np.array_equal(images[:, 0], images[:, 2])
    plain = Preprocess(10, 1, (0.0,), (1 / 255,), stored_channels=3)
    images = (
        Loader(SPLIT, batch_size=N, preprocess=plain, shuffle=False, backend=backend)
        .batch(0, 0)
        .images
    )
    assert images.shape == (N, 1, 10, 10)
    luma = SPLIT.images @ np.array((0.299, 0.587, 0.114))
    assert np.allclose(images[:, 0], luma, atol=1e-3)


def test_pictures_in_read_only_memory_are_read_without_a_warning(recwarn):
    images = SPLIT.images.copy()
    images.flags.writeable = False
    Loader(Split(images, None), batch_size=8, preprocess=PREPROCESS).batch(0, 0)
    assert not recwarn.list


@pytest.mark.parametrize("name", sorted(SETTINGS))
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_the_stored_pictures_are_never_changed(name, backend):
    before = SPLIT.images.copy()
    for batch in loader(name, backend=backend).epoch(0):
        batch.images[:] = 0
    assert np.array_equal(SPLIT.images, before)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"augment": ("flop",)}, "there is no augmentation 'flop'"),
        ({"augment": ("resize:12",)}, "images of 12 pixels where preprocess makes 10"),
        ({"batch_size": 0}, "batch_size 0"),
        ({"shard": (2, 2)}, "shard 2 of 2"),
        ({"batch_size": 64, "drop_last": True}, "53 images do not fill a batch of 64"),
        ({"indices": np.arange(0)}, "0 images do not fill"),
        ({"backend": "jax"}, "torch or numpy, not 'jax'"),
    ],
)
def test_settings_that_cannot_work_say_why(options, reason):
    with pytest.raises(UsageError, match=reason):
        loader(**options)


def test_there_is_no_batch_after_the_last():
    with pytest.raises(IndexError, match="an epoch has 7"):
        loader().batch(0, 7)


def run(program):
    """What a fresh Python prints, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_numpy_batches_never_import_torch():
    assert (
        run("""
        import json, sys
        import numpy as np
        from zoo_core.data.dataset import Split
        from zoo_core.data.loader import Loader
        from zoo_core.data.preprocess import Preprocess
        from zoo_core.data.draws import subset_indices

        split = Split(np.zeros((64, 8, 8, 3), np.uint8), np.arange(64))
        words = ("flip", "crop:2", "affine:rotate=9", "resized_crop:8", "cutout:2", "cutmix:1")
        preprocess = Preprocess(8, 3, (0.5,), (0.5,))
        loader = Loader(split, indices=subset_indices(64, 0.5, 0), batch_size=16, augment=words,
                        preprocess=preprocess, mixup=0.2, backend="numpy")
        assert sum(len(batch) for batch in loader.epoch(0)) == 32
        preprocess(split.images[0], backend="numpy")
        print(json.dumps([name for name in ("torch", "torchvision") if name in sys.modules]))
    """)
        == []
    )


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("backend", "augment"),
    [
        ("numpy", ()),
        ("numpy", ("flip", "crop:4")),
        ("torch", ("flip", "crop:4")),
        pytest.param("torch", (), marks=pytest.mark.slow),
    ],
)
def test_an_epoch_needs_no_copy_of_the_pictures(backend, augment):
    growth, size, batch = run(f"""
        import json, pathlib
        import numpy as np
        from zoo_core.data.dataset import Split
        from zoo_core.data.loader import Loader
        from zoo_core.data.preprocess import Preprocess

        if {backend!r} == "torch":
            import torch
            torch.set_num_threads(1)  # threads that wait for each other crawl on a busy machine

        def peak():  # getrusage would also count what the parent process had
            lines = pathlib.Path("/proc/self/status").read_text().splitlines()
            return next(int(line.split()[1]) * 1024 for line in lines if "VmHWM" in line)

        def epoch(images):
            loader = Loader(Split(images, np.zeros(len(images), np.int64)), batch_size=128,
                            preprocess=Preprocess(32, 3, (0.5,), (0.5,)), augment={augment!r},
                            backend={backend!r})
            for batch in loader.epoch(0):
                pass
            return batch.images.nbytes

        epoch(np.zeros((256, 32, 32, 3), np.uint8))  # what the libraries need for themselves
        images = np.ones((20_000, 32, 32, 3), np.uint8)
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the imports
        before = peak()
        batch = epoch(images)
        print(json.dumps([peak() - before, images.nbytes, batch]))
    """)
    assert growth < 0.5 * size + 2 * batch


@pytest.mark.parametrize("name", ["flip and crop", "affine", "resized", "mixed"])
def test_shards_agree_at_sizes_where_torch_uses_several_threads(name):
    rng = np.random.default_rng(3)
    split = Split(rng.integers(0, 256, (96, 32, 32, 3), dtype=np.uint8), None)
    size = 70 if name == "resized" else 32
    options = {
        **SETTINGS[name],
        "batch_size": 96,
        "preprocess": Preprocess(size, 3, (0.5,), (0.25,)),
    }
    whole = Loader(split, **options).batch(0, 0)
    for world in (2, 5, 96):
        parts = [Loader(split, **options, shard=(rank, world)).batch(0, 0) for rank in range(world)]
        assert same(join(parts), whole)


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_everything_is_made_on_the_device_of_the_model(name):
    """The meta device computes shapes only, and refuses to meet tensors of the CPU."""
    batch = loader(name, device="meta").batch(0, 1)
    on_cpu = loader(name).batch(0, 1)
    for field in ("images", "labels", "mixed_labels", "weight", "second"):
        there, here = getattr(batch, field), getattr(on_cpu, field)
        assert (there is None) == (here is None)
        if here is not None:
            assert there.device.type == "meta"
            assert (there.shape, there.dtype) == (here.shape, here.dtype)
            assert there.stride() == here.stride()
    assert np.array_equal(batch.indices, on_cpu.indices)


def test_targets_are_mixed_as_the_pictures_are_and_then_smoothed():
    labels, others = np.array([0, 2]), np.array([1, 2])
    batch = Batch(None, labels, labels, others, np.array([0.75, 0.5], np.float32))
    plain, mixed = Batch(None, labels, labels).targets(4), batch.targets(4, smoothing=0.2)
    assert plain.dtype == mixed.dtype == np.float32
    assert plain.tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]
    np.testing.assert_allclose(mixed, [[0.65, 0.25, 0.05, 0.05], [0.05, 0.05, 0.85, 0.05]])
