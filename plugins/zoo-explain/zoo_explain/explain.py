"""Where in an image a model found its answer, and whether hiding that place changes the answer.

Grad-CAM is torch's or the framework's own, attention comes from the entry; occlusion asks any
model, which may be a black box. drawing.py makes the plot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import zoo
from zoo import kit

METHODS = ("cam", "attention", "occlusion")
TORCHS = "zoo_explain.torch:evidence_of"  # for all frameworks whose models are modules of torch
ASKED = 256  # images that the model is asked about at once, at most
CELLS, PATCH = 8, 1.5  # of occlusion: cells in a row, and sides of what is hidden in cells
SHARPEST = 1024  # pixels of a side of the image that a map is drawn on, at most
STEPS, DRAWS = 10, 8  # in which all pixels are hidden; random maps to compare with
LEAST = 0.01  # of the probability, or of the number: by so much a map beats random ones
VEIL = 4  # pixels in a row of what stands in for hidden parts: the image, strongly blurred


@dataclass(frozen=True, repr=False)
class Explanation:
    """Where in one image a model found its answer, and how good the map is."""

    image: str  # the path or the address
    target: str  # the class that is explained, or the number
    value: float  # its probability, or the number itself
    predicted: str  # the most likely class, or the number again
    method: str  # cam, attention or occlusion
    map: np.ndarray  # (rows, columns) of what the model sees; 1: the most important; < 0: against
    # The deletion score: the mean probability while more and more of the image is hidden, the most
    # important places first; of a number, minus its mean change. Lower is better.
    score: float
    random: tuple[float, ...]  # the same of random maps, as smooth as this one
    numbers: bool  # whether the model gives numbers, not classes
    # What the model sees of the image: left, top, right, bottom, as shares of its sides.
    box: tuple[float, float, float, float]
    pixels: np.ndarray = field(compare=False)  # uint8 (h, w, 3): the whole image

    @property
    def holds(self) -> bool:
        """Whether the map is better than every random one, by an amount that matters."""
        least = LEAST * (abs(self.value) if self.numbers else 1)
        return min(self.random) - self.score >= least

    @property
    def answer(self) -> str:
        """What is explained, in words: `tabby 87.3 %`."""
        said = f"{self.value:.4g}" if self.numbers else f"{100 * self.value:.1f} %"
        other = f" (predicted: {self.predicted})" * (self.target != self.predicted)
        return f"{self.target} {said}{other}"

    @property
    def sentence(self) -> str:
        """What hiding the marked places does, beside hiding random ones."""
        three = (self.score, float(np.mean(self.random)), min(self.random))
        ours, mean, best = (f"{abs(v):.4g}" if self.numbers else f"{v:.2f}" for v in three)
        changed = "changes the number" if self.numbers else "lowers the probability"
        faster = "faster than hiding random places" if self.holds else "no faster than random maps"
        end = "." if self.holds else f" on average, {best} at best. Do not rely on this map."
        return f"Hiding what the map marks {changed} {faster}: {ours} against {mean}{end}"

    def __repr__(self) -> str:
        return f"Explanation({self.image}: {self.answer}; {self.method}. {self.sentence})"

    def _repr_html_(self) -> str:
        return Explanations([self])._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON: all but the pixels."""
        own = {k: v for k, v in vars(self).items() if k not in ("map", "numbers", "pixels")}
        shown = {"map": self.map.astype(float).round(6).tolist(), "holds": self.holds}
        return {**own, **shown, "sentence": self.sentence}


class Explanations(list[Explanation]):
    """A list of explanations, which a notebook shows."""

    def draw(self, path: str | Path) -> list[Path]:
        """Write the plot, or as many pages as it needs; their paths."""
        from zoo_explain.drawing import draw_explanations

        return draw_explanations(Path(path), self)

    def _repr_html_(self) -> str:
        from zoo_explain.drawing import explanations_html

        return explanations_html(self)


def explain(
    run: Any, images: Any, *, method: str = "", target: str = "", device: str = "auto",
    runs: Path | None = None,
) -> Explanations:  # fmt: skip
    """Where in images a model found its answers, and whether hiding these places changes them.

        found = zoo.explain("cnn", "cat.jpg")        # a notebook draws it
        found[0].map, found[0].score, found[0].random
        found.draw("cat.png")

    run, images: as for `zoo.predict`. method: cam (Grad-CAM: gradients times feature maps),
    attention (of models that declare it) or occlusion (any model: parts of the image are hidden in
    turn); "" takes the first of these that the model has. target: the class, or the number, to
    explain; "" takes the most likely class, or the first number.
    """
    if method and method not in METHODS:
        raise zoo.UsageError(f"there is no method {method!r}", f"there are {', '.join(METHODS)}")
    named, model = kit.named_images(run, images), kit.loaded(run, runs, device)
    names = kit.answers_of(model).targets.names
    if target and target not in names:
        hint = kit.did_you_mean(str(target), names, f"it has: {', '.join(names[:20])}")
        raise zoo.UsageError(f"the model knows no {target!r}", hint)
    found = Explanations()
    with kit.progress("explaining", len(named)) as advance:
        for name, image in named:
            found.append(Asked(model, kit.opened(image), target).explained(name, method))
            advance(1)
    return found


class Asked:
    """A model and one image, whose parts can be hidden from it."""

    def __init__(self, model: Any, image: Any, target: str = "") -> None:
        self.model, self.entry, self.preprocess = model, model.zoo.entry, model.zoo.preprocess
        targets = kit.answers_of(model).targets
        self.image, self.names, self.size = image, targets.names, self.preprocess.size
        self.numbers = targets.kind == "numbers"
        self.pixels = self.preprocess.batch([image], backend="numpy")[0]  # (c, size, size)
        few = (resized(plane, VEIL, Image.Resampling.BOX) for plane in self.pixels)
        self.veil = np.stack([resized(plane, self.size) for plane in few])
        self.row = self._rows([np.zeros((self.size, self.size), bool)])[0]
        best = 0 if self.numbers else int(self.row.argmax())
        self.index = self.names.index(target) if target else best

    def _rows(self, masks: Sequence[np.ndarray]) -> np.ndarray:
        """What the model says where the pixels of a mask (size, size) are hidden, one by one."""
        found = []
        each = min(ASKED, self.preprocess.at_once)
        for start in range(0, len(masks), each):
            part = masks[start : start + each]
            shown = np.stack([np.where(mask, self.veil, self.pixels) for mask in part])
            found.append(kit.readable(self.model, kit.as_input(self.model, shown)))
        return np.concatenate(found)

    def kept(self, masks: Sequence[np.ndarray]) -> np.ndarray:
        """What is left of the answer: the probability, or how far the number is away, as minus."""
        left = self._rows(masks)[:, self.index]
        return -np.abs(left - self.row[self.index]) if self.numbers else left

    def map(self, method: str = "") -> tuple[str, np.ndarray]:
        """A map of any number of rows and columns, its maximum 1, and how it was made."""
        if self.numbers and method not in ("", "occlusion"):
            raise zoo.UsageError("a number is explained by occlusion alone", "leave out --method")
        found, images = None, kit.as_input(self.model, self.pixels[None])
        if method in ("", "cam") and not self.numbers:
            found, used = self._evidence(images), "cam"
            if found is None and method:
                what = f"model {self.entry.name!r} has no feature maps that Grad-CAM could use"
                raise zoo.UsageError(what, "use --method occlusion")
        declared = "attention" in self.entry.capabilities and not (method or self.numbers)
        if found is None and (method == "attention" or declared):
            maps = kit.capability(self.entry, "attention")(self.model, images)
            if np.ndim(maps) != 5:
                what = f"the attention of model {self.entry.name!r} must be an array of (layers, "
                raise zoo.ZooError(f"{what}images, heads, rows, columns)", "see docs/hooks.md")
            found, used = np.asarray(maps)[:, 0].mean((0, 1)), "attention"
        if found is None:
            found, used = self._occlusion(), "occlusion"
        return used, found / (max(found.max(), 0) or np.abs(found).max() or 1.0)

    def _evidence(self, images: Any) -> np.ndarray | None:
        """How much each place of the image adds to the output; None: nobody can say."""
        framework = self.model.zoo.framework
        torchs = TORCHS if framework.backend == "torch" else ""
        if not (target := framework.capabilities.get("evidence", torchs)):
            return None
        find = kit.resolve(target, f"explaining model {self.entry.name!r}")
        found: np.ndarray | None = find(self.model, images, self.index)
        return found

    def _occlusion(self) -> np.ndarray:
        """What the answer loses where a square around each cell is hidden."""
        cells = min(CELLS, self.size)
        middles = (np.arange(cells) + 0.5) * self.size / cells
        far = np.abs(np.arange(self.size) + 0.5 - middles[:, None])  # (cells, size)
        inside = far <= PATCH * self.size / cells / 2
        masks = [row[:, None] & column for row in inside for column in inside]
        first, *left = self.kept([np.zeros((self.size, self.size), bool), *masks])
        return np.reshape(first - np.array(left), (cells, cells))

    def deletion(self, maps: Iterable[np.ndarray]) -> list[float]:
        """For each map (size, size) the mean of what is left while its pixels are hidden."""
        count, shape = self.size**2, (self.size, self.size)
        hidden = [np.zeros(shape, bool), np.ones(shape, bool)]  # the same for all
        for map in maps:
            rank = np.argsort(np.argsort(-map, axis=None, kind="stable")).reshape(shape)
            hidden += [rank < step * count / STEPS for step in range(1, STEPS)]
        first, last, *between = self.kept(hidden)
        areas = np.reshape(between, (-1, STEPS - 1)).sum(1) + (first + last) / 2
        return [float(area / STEPS) for area in areas]

    def explained(self, name: str, method: str) -> Explanation:
        used, map = self.map(method)
        large, rng = resized(map, self.size), np.random.default_rng(0)
        score, *random = self.deletion([large, *(random_like(large, rng) for _ in range(DRAWS))])
        pixels = np.asarray(kit.viewed(self.image, SHARPEST))
        target = self.names[self.index]
        return Explanation(
            name, target, float(self.row[self.index]),
            target if self.numbers else self.names[int(self.row.argmax())], used, map, score,
            tuple(random), self.numbers, _box(self.preprocess, pixels), pixels,
        )  # fmt: skip


def random_like(map: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random map of the same smoothness: its waves are as strong, but shifted at random."""
    strong = np.abs(np.fft.fft2(map - map.mean()))
    shifts = np.angle(np.fft.fft2(rng.standard_normal(map.shape)))
    return np.asarray(np.fft.ifft2(strong * np.exp(1j * shifts)).real)


def resized(plane: np.ndarray, size: int, how: int = Image.Resampling.BICUBIC) -> np.ndarray:
    return np.asarray(Image.fromarray(plane.astype(np.float32)).resize((size, size), how))


def _box(preprocess: zoo.Preprocess, pixels: np.ndarray) -> tuple[float, float, float, float]:
    """The part of an image that the model sees; it is larger than the image where it is padded."""
    sides = pixels.shape[1], pixels.shape[0]
    side = {"crop": min(sides), "pad": max(sides)}.get(preprocess.fit)
    share = preprocess.size / (preprocess.resize or preprocess.size)
    width, height = (share * (side or own) / own for own in sides)
    return (1 - width) / 2, (1 - height) / 2, (1 + width) / 2, (1 + height) / 2
