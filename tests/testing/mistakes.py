"""Mistakes that plugin authors make, and a look at what `zoo plugin check` says about each.

    python tests/testing/mistakes.py             # all of them, one line each, and the counts
    python tests/testing/mistakes.py seed -v     # those whose name has the word, with the findings

Each mistake is put into one of the sound plugins in the folder `sound`. It counts as named if there
is exactly one finding, and that finding has all of the mistake's words: the cause and what to do.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

SOUND = Path(__file__).parent / "sound"


@dataclass(frozen=True)
class Mistake:
    name: str
    plugin: str  # the sound one that it is put into
    words: tuple[str, ...]  # in any case; a finding that names the cause has all of them
    changes: dict[str, tuple[tuple[str, str], ...]] = field(
        default_factory=dict
    )  # file -> old, new
    # "site": the plugin as if it were installed, in this process. "wheel": the folder, as authors
    # check it. "plugins": what `zoo plugins` says, after it was installed.
    how: str = "site"


def of(plugin: str, name: str, words: tuple[str, ...], *changes: Any, **more: Any) -> Mistake:
    """changes: a file's name, then pairs of what stands there and what stands there instead; a pair
    with nothing before makes a new file."""
    files: dict[str, list[tuple[str, str]]] = {}
    for change in changes:
        if isinstance(change, str):
            here = files.setdefault(change, [])
        else:
            here.append(change)
    return Mistake(name, plugin, words, {k: tuple(v) for k, v in files.items()}, **more)


NET, CODE = "zoo_gaze/gaze.py", "zoo_code/code.py"
ENTRY = "zoo_gaze/plugin.py"
CAPABLE = "zoo_gaze/capabilities.py"
DOTS, DATA, WORD = "zoo_dots/dots.py", "zoo_dots/plugin.py", "zoo_dots/words.py"
SUMS, TRAINER = "zoo_sums/sums.py", "zoo_sums/trainer.py"

MISTAKES = [
    # ------------------------------------------------------------ models
    of("gaze", "option-not-in-config", ("dropout", "config"),
       NET, ("        hidden=(24,),\n", "        hidden=(24,),\n        dropout=0.1,\n"),
       ("self.head = ", "self.drop = nn.Dropout(dropout)\n        self.head = "),
       ("self.head(self.features(images))", "self.head(self.drop(self.features(images)))")),
    of("gaze", "option-not-in-constructor", ("dropout", "config"),
       ENTRY, ('"depth": 1,', '"depth": 1, "dropout": 0.1,')),
    of("gaze", "parameters-of-an-older-version", ("parameters=2_946",), ENTRY, ("2_946", "3_000")),
    of("gaze", "ten-classes-written-out", ("num_classes",),
       NET, ("nn.Linear(width, num_classes)", "nn.Linear(width, 10)")),
    of("gaze", "image-size-written-out", ("image_size",),
       NET, ("(image_size // patch_size) ** 2", "4")),
    of("gaze", "softmax-in-forward", ("softmax", "sum to 1"),
       NET, ("self.head(self.features(images))", "self.head(self.features(images)).softmax(1)")),
    of("gaze", "cuda-in-init", ("device",),
       NET, ("nn.Linear(width, num_classes)", "nn.Linear(width, num_classes).cuda()")),
    of("gaze", "device-in-forward", ("device", "cpu"),
       NET, ("+ self.place", '+ torch.zeros(1, device="cpu") + self.place')),
    of("gaze", "seed-in-init", ("seed", "__init__"),
       NET, ("        tokens =", "        torch.manual_seed(42)\n        tokens =")),
    of("gaze", "download-in-init", ("network", "__init__"),
       NET, ("from itertools", "import urllib.request\nfrom itertools"),
       ("        tokens =", '        urllib.request.urlopen("https://weights.example.org/gaze.pth")\n'
        "        tokens =")),
    of("gaze", "append-to-an-option", ("hidden", "list("),
       NET, ("        tokens =", "        hidden.append(width)\n        tokens =")),
    of("gaze", "nothing-checks-patch-size", ("patch_size=0", "ValueError"),
       ENTRY, ("2_946", "2_898"), ('"patch_size": (1,', '"patch_size": (0,'),
       NET, ("if patch_size < 1 or image_size % patch_size:", "if image_size < patch_size:"),
       ("        tokens = (image_size // patch_size) ** 2\n", ""), ("randn(tokens, ", "randn(")),
    of("gaze", "nothing-checks-negative-heads", ("heads=-", "ValueError"),
       ENTRY, ('"heads": (1,', '"heads": (-4,'),
       NET, ("if heads < 1 or width < 1", "if width < 1")),
    of("gaze", "no-range-for-some-numbers", ("width", "hidden", "ranges={"),
       ENTRY, ('"width": (1, 512),', ""), ('"hidden": (1, 512),', "")),
    of("gaze", "the-most-cannot-be-built", ("depth=16", "ValueError"),
       NET, ("        tokens =", "        self.rate = (0.1, 0.2)[depth // 8]\n        tokens =")),
    of("gaze", "dropout-in-evaluation", ("evaluation", "self.training"),
       NET, ("self.head(self.features(images))",
             "self.head(nn.functional.dropout(self.features(images), 0.1))")),
    of("gaze", "parameter-never-used", ("scale", "forward"),
       ENTRY, ("2_946", "2_962"),
       NET, ("self.head = ", "self.scale = nn.Parameter(torch.ones(width))\n        self.head = ")),
    of("gaze", "tensor-not-a-buffer", ("register_buffer",),
       NET, ("self.head = ", "self.mix = torch.randn(width, width)\n        self.head = "),
       ("self.head(self.features(images))", "self.head(self.features(images) @ self.mix)")),
    of("gaze", "layers-in-a-list", ("blocks", "ModuleList"),
       ENTRY, ("2_946", "1_018"),
       NET, ("nn.Sequential(*(Block(width, heads, hidden) for _ in range(depth)))",
             "[Block(width, heads, hidden) for _ in range(depth)]"),
       ("return self.blocks(x).mean(1)",
        "for block in self.blocks:\n            x = block(x)\n        return x.mean(1)")),
    of("gaze", "forward-gives-a-tuple", ("tuple", "forward"),
       NET, ("return self.head(self.features(images))",
             "x = self.features(images)\n        return self.head(x), x")),
    of("gaze", "numbers-that-are-not-finite", ("nan",),
       NET, ("self.head(self.features(images))", "self.head(self.features(images).log())")),
    # ------------------------------------------------------------ recipes
    of("gaze", "augmentation-misspelt", ("crop1", "recipe", "default"),
       ENTRY, ('"crop:1"', '"crop1"')),
    of("gaze", "option-misspelt-in-a-recipe", ("deth", "recipe", "long"),
       ENTRY, ('model={"depth": 2}', 'model={"deth": 2}')),
    of("gaze", "optimizer-that-nobody-has", ("lamb", "recipe", "long"),
       ENTRY, ('optimizer="adamw", lr=1e-3', 'optimizer="lamb", lr=1e-3')),
    of("sums", "recipe-sets-what-nobody-uses", ("weight_decay", "recipe"),
       "zoo_sums/plugin.py", ("lr=0.01,", "lr=0.01, weight_decay=0.1,")),
    # ------------------------------------------------------------ capabilities
    of("gaze", "attention-gives-a-list", ("attention", "list", "numpy"),
       CAPABLE, ("np.stack([m.reshape(*m.shape[:2], side, side).numpy() for m in maps])",
                 "[m.reshape(*m.shape[:2], side, side) for m in maps]")),
    of("gaze", "attention-by-image", ("attention", "layers", "images"),
       CAPABLE, ("for m in maps])", "for m in maps], 1)")),
    of("gaze", "features-require-grad", ("features", "tensor", "numpy"),
       CAPABLE, ("@torch.inference_mode()\ndef features", "def features"),
       ("model.eval().features(images).numpy()", "model.eval().features(images)")),
    of("gaze", "capability-misspelt", ("feature", "did you mean features"),
       ENTRY, ('"features":', '"feature":')),
    of("code", "features-are-images", ("features", "(3, 3, 8, 8)"),
       "zoo_code/capabilities.py", ("model.eval().encoder(images)", "model.eval()(images)")),
    of("code", "generate-gives-a-tensor", ("FromCode", "array"),
       "zoo_code/capabilities.py", ("(torch.from_numpy(noise)).numpy()",
                                    "(torch.from_numpy(noise))")),
    # ------------------------------------------------------------ tasks
    of("code", "scores-of-something-else", ("scores", "classes", "kinds"),  # as RotNet's of angles
       "zoo_code/plugin.py", ('("generation",)', '("classification",)'), ("1_732", "1_752"),
       ('                "generate": "zoo_code.capabilities:FromCode",\n', ""),
       CODE, ("        self.decoder = ", "        self.angle = nn.Linear(latent, 4)\n"
              "        self.decoder = "),
       ("self.decoder(self.encoder(images))", "self.angle(self.encoder(images))")),
    of("code", "step-without-update", ("update", "step"),
       CODE, ('        update("model", loss)\n', "")),
    of("code", "evaluate-gives-a-sum", ("evaluate", "mean"),
       CODE, ("float(total / count)", "float(total)")),
    of("code", "labels-not-asked-for", ("needs =",),
       CODE, ("        return error + ", "        error = error * (1 + batch.labels)\n"
              "        return error + ")),
    of("code", "evaluate-draws-at-random", ("evaluate", "random"),
       CODE, ("        error = (", "        codes = codes + codes.clone().normal_()\n"
              "        error = (")),
    of("code", "plot-is-not-a-figure", ("plots", "figure"),
       CODE, ("    def evaluate(", "    def plots(self, model, batches):\n"
              '        return {"codes": model.encoder(next(batches).images)}\n\n'
              "    def evaluate(")),
    # ------------------------------------------------------------ datasets
    of("dots", "labels-from-1", ("label", "2 classes"),
       DOTS, ("labels = np.arange(100) % 2", "labels = np.arange(100) % 2 + 1"),
       ("4 * label", "4 * (label - 1)")),
    of("dots", "images-as-floats", ("uint8", "float"),
       DOTS, ("    return {", "    images = images / np.float32(255)\n    return {")),
    of("dots", "mean-and-std-of-imagenet", ("mean", "std", "0.1"),
       DATA, ("mean=(0.1", "mean=(0.485, 0.456, 0.406),  # (0.1"),
       ("std=(0.2", "std=(0.229, 0.224, 0.225),  # (0.2")),
    of("dots", "another-set-each-time", ("random", "seed"),
       DOTS, ("default_rng(0)", "default_rng()")),
    of("dots", "no-digests", ("digests={",), DATA, ("digests={", "digests={} and {")),
    of("dots", "option-of-the-data-not-in-config", ("size", "config"),
       DOTS, ("shade=40", "shade=40, size=8")),
    of("dots", "test-images-in-training", ("test", "training", "same"),
       DATA, ("3f1e91e144fd916773154d496f5902b05fb83f8cad5a2b8e6232ddaad525cf37",
              "a88617703e5ad298e5da98096c71930df128baf017dbc499a1ce9b596ac1a525"),
       DOTS, ("images[80:]", "images[:20]"), ("labels[80:]", "labels[:20]")),
    # ------------------------------------------------------------ augmentations
    of("dots", "word-draws-from-numpy", ("each time", "draws"),
       WORD, ('draws.uniform("factor", 1 - self.most, 1)', "np.random.rand(len(images))")),
    of("dots", "word-looks-at-its-place-in-the-batch", ("depend on the others",),
       WORD, ('draws.uniform("factor", 1 - self.most, 1)', "np.linspace(0, 1, len(images))")),
    of("dots", "word-gives-float64", ("dim", "float64", "uint8 or float32"),
       WORD, (".astype(np.float32)", "")),
    of("dots", "word-loses-channels", ("dim", "shape"),
       WORD, ("return images * ", "return images[..., :1] * ")),
    of("dots", "word-for-numpy-alone", ("dim", "raised"),
       WORD, ("return images * ", "return images.astype(np.float32) * ")),
    of("dots", "word-target-is-a-function", ("dim", "zoo.Augmentation"),
       DATA, ("zoo_dots.words:Dim", "zoo_dots.words:Dim.run")),
    # ------------------------------------------------------------ trainers
    of("sums", "probabilities-for-scores", ("probabilities", "logarithm"),
       TRAINER, ("        return model(images)",
                 "        scores = np.exp(model(images))\n"
                 "        return scores / scores.sum(1, keepdims=True)")),
    of("sums", "bias-not-loaded", ("load_state",),
       SUMS, ("            getattr(self, name)[...] = array",
              '            if name != "bias":\n                getattr(self, name)[...] = array')),
    of("sums", "honours-what-it-ignores", ("clip_grad", "honours"),
       TRAINER, ('"label_smoothing", "init"', '"label_smoothing", "init", "clip_grad"')),
    of("sums", "method-misspelt", ("predict_batch",),
       TRAINER, ("predict_batch", "predict_batches")),
    # ------------------------------------------------------------ plugin.py
    of("gaze", "torch-in-plugin-py", ("imports torch", "target"),
       ENTRY, ("import zoo\n", "import torch  # noqa: F401\n\nimport zoo\n")),
    of("gaze", "hook-not-marked", ("zoo_models", "@zoo.hookimpl"), ENTRY, ("@zoo.hookimpl\n", "")),
    of("dots", "print-in-plugin-py", ("print",),
       DATA, ("ZOO_API = 1\n", 'ZOO_API = 1\nprint("dots is here")\n')),
    of("gaze", "class-misspelt-in-the-target", ("Gaez", "target"),
       ENTRY, ("gaze:Gaze", "gaze:Gaez")),
    of("dots", "import-of-zoo-core", ("zoo_core", "zoo.kit"),
       DOTS, ("import numpy as np\n", "import numpy as np\n\n"
              "from zoo_core.data.dataset import Split  # noqa: F401\n"), how="wheel"),
    # ------------------------------------------------------------ the package
    of("dots", "group-misspelt-and-installed", ("[zoos]", "zoo"),
       "pyproject.toml", ("entry-points.zoo]", "entry-points.zoos]"), how="plugins"),
    of("dots", "another-zoo-core", ("zoo-core>=3,<4", "this zoo-core"),
       "pyproject.toml", ("zoo-core>=0.1,<1", "zoo-core>=3,<4"), how="wheel"),
    of("dots", "dependency-not-declared", ("scikit-learn", "dependencies"),
       DOTS, ("import numpy as np\n", "import numpy as np\nfrom sklearn.utils import shuffle\n"),
       ("    return {", "    shuffle([1])\n    return {"), how="wheel"),
    of("dots", "module-beside-the-package", ("dots_helper", "wheel"),
       "dots_helper.py", ("", "SIDE = 8\n"),
       DOTS, ("import numpy as np\n", "import numpy as np\nfrom dots_helper import SIDE\n"),
       ("(100, 8, 8, 3)", "(100, SIDE, SIDE, 3)"), how="wheel"),
    of("dots", "subpackage-not-in-the-wheel", ("parts/", "wheel"),
       "zoo_dots/parts/__init__.py", ("", "SIDE = 8\n"),
       DOTS, ("import numpy as np\n", "import numpy as np\n\nfrom zoo_dots.parts import SIDE\n"),
       ("(100, 8, 8, 3)", "(100, SIDE, SIDE, 3)"),
       "pyproject.toml", ('packages = ["zoo_dots"]',
                          'packages = ["zoo_dots"]\nexclude = ["zoo_dots/parts"]'), how="wheel"),
    of("dots", "weights-that-no-hook-names", ("weights.json", "zoo_manifests"),
       "zoo_dots/weights.json", ("", '{"version": 1, "weights": []}')),
]  # fmt: skip


class Said(NamedTuple):
    """What was said about a mistake."""

    findings: list[str]  # what, why and how to fix it
    named: bool  # by one finding at least

    @property
    def verdict(self) -> str:
        if not self.findings:
            return "SILENT"
        return (
            "named" if self.named and len(self.findings) == 1 else "many" if self.named else "other"
        )


def write(mistake: Mistake, folder: Path) -> Path:
    """The plugin with the mistake in it, as its author has it."""
    to = folder / f"zoo-{mistake.plugin}"
    shutil.copytree(SOUND / to.name, to, ignore=shutil.ignore_patterns("__pycache__"))
    for name, changes in mistake.changes.items():
        path = to / name
        for old, new in changes:
            if not old:
                path.parent.mkdir(exist_ok=True)
                path.write_text(new)
                continue
            text = path.read_text()
            assert old in text, f"{mistake.name}: {name} does not have {old!r}"
            path.write_text(text.replace(old, new))
    return to


def install(source: Path, site: Path) -> str:
    """Put a package into a folder as pip would, without a build; the id of its plugin."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    package = source.name.replace("-", "_")
    shutil.copytree(source / package, site / package)
    about = site / f"{package}-{project['version']}.dist-info"
    about.mkdir()
    needs = "".join(f"Requires-Dist: {one}\n" for one in project["dependencies"])
    head = f"Metadata-Version: 2.3\nName: {project['name']}\nVersion: {project['version']}\n"
    (about / "METADATA").write_text(head + needs)
    points = project["entry-points"].items()
    text = "".join(f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in p.items()) for g, p in points)
    (about / "entry_points.txt").write_text(text)
    return package.removeprefix("zoo_")


@contextmanager
def importable(site: Path) -> Iterator[None]:
    """This process and its children find the packages of a folder; afterwards all is as before."""
    from zoo_core.spec.plugins import load_plugins
    from zoo_core.spec.registry import registry

    before, modules = os.environ.get("PYTHONPATH", ""), set(sys.modules)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), before]))
    sys.path.insert(0, str(site))
    load_plugins.cache_clear(), registry.cache_clear()
    try:
        yield
    finally:
        sys.path.remove(str(site))
        os.environ["PYTHONPATH"] = before
        for name in set(sys.modules) - modules:
            if str(site) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
        load_plugins.cache_clear(), registry.cache_clear()


def look(mistake: Mistake) -> Said:
    """Make the mistake, and ask what is wrong."""
    from zoo_author.package import check_folder
    from zoo_author.suite import checks_of, outcomes

    from zoo_core.spec.plugins import load_plugins

    with tempfile.TemporaryDirectory() as temporary:
        source, site = write(mistake, Path(temporary)), Path(temporary) / "site"
        if mistake.how == "wheel":
            made = list(check_folder(source))
        else:
            plugin = install(source, site)
            with importable(site):
                records = load_plugins().records
                if mistake.how == "plugins":
                    name = source.name
                    reasons = [r.reason for r in records if r.distribution == name and r.reason]
                    return _said(mistake, reasons)
                made = list(outcomes(checks_of(plugin)))
    return _said(mistake, [f"{o.what} | {o.why} | {o.fix}" for o in made if o.state == "found"])


def _said(mistake: Mistake, findings: list[str]) -> Said:
    wanted = [word.lower() for word in mistake.words]
    return Said(findings, any(all(w in text.lower() for w in wanted) for text in findings))


def apart(mistake: Mistake) -> Said:
    """As look, in a copy of this process: a seed that the mistake sets changes nothing here."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1), os.dup2(silence, 2)
        try:
            said: Any = look(mistake)
        except BaseException as error:
            said = Said([f"the check broke: {error!r}"], False)
        with os.fdopen(writer, "w") as stream:
            json.dump(said, stream)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return Said(*json.loads(text)) if text else Said(["the process ended"], False)


def main() -> None:
    import torch  # noqa: F401 - once for all copies of this process
    import zoo_author.suite
    import zoo_author.torch  # noqa: F401

    words = [word for word in sys.argv[1:] if word != "-v"]
    chosen = [m for m in MISTAKES if not words or any(word in m.name for word in words)]
    verdicts = []
    for plugin in ("gaze", "code", "dots", "sums") if not words else ():
        for text in apart(Mistake("none", plugin, ())).findings:
            print(f"the sound plugin {plugin} has a finding: {text}")
    for mistake in chosen:
        said = apart(mistake)
        verdicts.append(said.verdict)
        print(f"{said.verdict:7} {len(said.findings):2}  {mistake.name}", flush=True)
        for text in said.findings if "-v" in sys.argv else ():
            print(f"            {text}")
    count = {verdict: verdicts.count(verdict) for verdict in ("named", "many", "other", "SILENT")}
    print(
        f"{len(chosen)} mistakes: {count['named']} have one finding that names the cause, "
        f"{count['many']} have more than that one, {count['other']} have others only, "
        f"{count['SILENT']} have none."
    )


if __name__ == "__main__":
    main()
