"""Words for generated calls: those that fit a parameter, and those that fit nothing."""

from __future__ import annotations

NASTY = (
    "", " ", "-", "--", "-1", "0", "1e999", "nan", "inf", "-inf", str(2**63), str(-(2**63)),
    "9" * 400, "9" * 23, "1e-400", "0x10", "1_000", "١٢", "x" * 5000, "../" * 50, "a/" * 2000,
    "\x1b]0;owned\x07", "\u202egnp.exe", "a\nb", "a\tb", "a\rb", "\udcff\udc80", "é", "e\u0301",
    "🦓" * 100, "~", ".", "..", "*", "?", "%s%n", "{0}", "$HOME", "`id`", "'", '"', "\\",
    "=", "a=", "=b", "a=b=c", ",", ":", "::", "@", "hf:", "hf:a", "hf:a/b@", "file:", "package:",
    "http://", "http://[", "https://127.0.0.1:9/x.png", "None", "null", "true", "[]", "{}", "[[[[",
    "/dev/null", "/dev/zero", "/dev/full", "/dev/stdin", "/proc/self/mem", "/proc/self/environ",
    "pipe", "pipe.png", "empty", "empty.png", "noise.png", "noise.json", "noise.safetensors",
    "missing", "missing.png", "missing/", "folder", "photos", "./photos", "image.png", "text.csv",
    "deep.json", "deep.toml", "config.toml", "loop", "dangling", "secret", "latest", "runs",
    "runs/latest", "runs/", "manifest.json", "model.safetensors", "con", "nul", "COM1",
)  # fmt: skip
MODELS = [
    "mlp",
    "mlp",
    "fcn_numpy",
    "mnist_cnn1",
    "cnn",
    "acgan",
    "mlp/mlp",
    "builtin/mlp",
    "nothing",
]
WEIGHTS = (
    "latest latest mlp mlp.cifar10 RUN runs/RUN lenet_numpy.mnist file:shared hf:org/name "
    f"hf:org/name@{'0' * 40} model.safetensors acgan nano_vit_p4"
).split()
DATASETS = ["synthetic", "synthetic", "./photos", "photos", "text.csv", "mnist", "hf:org/photos"]
SETTINGS = [
    "lr",
    "epochs",
    "batch_size",
    "seed",
    "preprocess.size",
    "preprocess.mean",
    "model.hidden",
    "data.image_size",
    "data.train_size",
    "augment",
    "optimizer",
    "subset",
    "ema",
    "warmup",
    "model.num_classes",
    "model.dropout",
    "precision",
    "schedule",
    "task.x",
    "clip_grad",
    "validation_fraction",
    "preprocess.fit",
    "data.store",
    "data.labels",
    "image_size",
    "label_smoothing",
    "mixup",
    "accumulate",
    "patience",
    "init",
    "class_weights",
]
VALUES = [
    "1",
    "2",
    "0.5",
    "8",
    "16",
    "flip",
    "adam",
    "sgd",
    "true",
    "1,2",
    "crop:4",
    "none",
    "100000",
]
# Words that fit, by the name of the parameter.
FITTING: dict[str, list[str]] = {
    "model": MODELS,
    "dataset": DATASETS,
    "name": [*MODELS, *DATASETS, *WEIGHTS, "mixer"],
    "names": [*WEIGHTS, *DATASETS],
    "images": ["image.png", "photos", "noise.png", "pipe.png"],
    "image": ["image.png", "noise.png"],
    "text": ["mlp", "*", "resnet*", "file:shared", "hf:org"],
    "runs": ["runs", "elsewhere"],
    "output": ["out.png", "out.pt2", "out.onnx", "out.npz", "out.pdf", "out", "folder/out.png"],
    "config": ["config.toml", "deep.toml", "deep.json", "runs/RUN/run.json"],
    "to": ["file:shared", "file:new", "package:folder", "hf:org/name", "folder", "."],
    "device": ["cpu", "cpu", "auto", "cuda", "mps"],
    "engine": ["local", "ray"],
    "searcher": ["tpe", "random", "grid"],
    "recipe": ["default", "paper"],
    "preset": ["default", "paper"],
    "plugin": ["mlp", "cnn", "builtin"],
    "resources": ["cpus=1", "cpus=2,gpus=0.5", "memory=4e9"],
    "port": ["0", "99999", "-1"],
    "kinds": ["data", "weights", "features", "packs"],
    "ids": ["0", "abc"],
    "source": ["photos", "image.png"],
    "max_size": ["0", "5GB", "1e999GB", "-1MB", "nanGB"],
    "host": ["127.0.0.1", "localhost"],
} | dict.fromkeys(("run", "ref", "reference", "references", "init", "resume", "distance"), WEIGHTS)
# Of the environment, and what such a variable may hold.
VARIABLES = [
    "HF_ENDPOINT",
    "HF_TOKEN",
    "HF_HOME",
    "ZOO_CACHE",
    "ZOO_RUNS",
    "ZOO_MANIFEST",
    "ZOO_CONFIG",
]
VARIABLES += ["COLUMNS", "HF_HUB_OFFLINE", "WORLD_SIZE", "RANK", "ZOO_STRICT", "TMPDIR"]
PLACES = [
    "http://127.0.0.1:99999",
    "http://a b",
    "ftp://x",
    "hub",
    "runs",
    "1",
    "noise.json",
    "folder",
]
