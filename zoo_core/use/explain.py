"""Where in an image a model found its answer, and whether hiding that place changes the answer.

Grad-CAM comes from the framework and attention from the entry; occlusion asks any model, which may
be a black box. The drawing: report/explanations.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from zoo_core.data.images import Form, decoded, open_image
from zoo_core.data.loader import EVALUATION_BATCH
from zoo_core.data.ops import open_ops
from zoo_core.data.preprocess import Preprocess
from zoo_core.io.console import progress
from zoo_core.io.errors import PluginError, UsageError, did_you_mean
from zoo_core.io.targets import Displayed, resolve
from zoo_core.spec.answers import NUMBERS, Answers
from zoo_core.spec.framework import Framework, framework_of
from zoo_core.use.load import blocks, capability, loaded
from zoo_core.use.predict import answers_of, named_images, opened, readable, several

METHODS = ("cam", "attention", "occlusion")
CELLS, PATCH = (
    8,
    1.5,
)  # of occlusion: cells in a row of the map, and sides of what is hidden in cells
SHARPEST = 1024  # pixels of a side of the image that a map is drawn on, at most
STEPS, DRAWS = 10, 8  # in which all pixels are hidden; random maps to compare with
VEIL = 4  # pixels in a row of what stands in for hidden parts: the image, strongly blurred


@dataclass(frozen=True, repr=False)
class Explanation(Displayed):
    """Where in one image a model found its answer.

    score: the mean probability of the class while more and more of the image is hidden, the most
    important places first; random: the same for random maps of the same smoothness. Lower is
    better. Of a number, both are its mean change, and higher is better.
    """

    image: str  # the path or the address
    target: str  # the class that is explained, or the number
    value: float  # its probability, or the number itself
    predicted: str  # the most likely class, or the number again
    method: str  # cam, attention or occlusion
    map: np.ndarray  # (rows, columns) of what the model sees; 1: the most important; < 0: against
    score: float
    random: tuple[float, ...]
    numbers: bool  # whether the model gives numbers, not classes
    pixels: np.ndarray = field(compare=False)  # uint8 (h, w, 3): the whole image
    # What the model sees of it: left, top, right, bottom, as shares of its sides.
    box: tuple[float, float, float, float]

    _html = "zoo_core.report.explanations:explanations_html"

    @property
    def holds(self) -> bool:
        """Whether the map is better than every random one."""
        return self.score > max(self.random) if self.numbers else self.score < min(self.random)

    @property
    def answer(self) -> str:
        """What is explained, in words: `tabby 87.3 %`."""
        if self.numbers:
            return f"{self.target} {self.value:.4g}"
        said = f"{self.target} {100 * self.value:.1f} %"
        return said if self.target == self.predicted else f"{said} (predicted: {self.predicted})"

    @property
    def sentence(self) -> str:
        """What hiding the marked places does, beside hiding random ones."""
        digits = ".4g" if self.numbers else ".2f"
        changed = "changes the number" if self.numbers else "lowers the probability"
        best = max(self.random) if self.numbers else min(self.random)
        sides = f"{self.score:{digits}} against {np.mean(self.random):{digits}}"
        what = f"Hiding what the map marks {changed}"
        if self.holds:
            return f"{what} faster than hiding random places: {sides}."
        return (
            f"{what} no faster than hiding random places can: {sides} on average and "
            f"{best:{digits}} at best. Do not rely on this map."
        )

    def __repr__(self) -> str:
        return f"Explanation({self.image}: {self.answer}; {self.method}. {self.sentence})"

    def draw(self, path: str | Path) -> None:
        """Write the plot, a .png, .pdf or .svg."""
        Explanations([self]).draw(path)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "image": self.image,
            "number" if self.numbers else "class": self.target,
            "value" if self.numbers else "probability": self.value,
            "predicted": self.predicted,
            "method": self.method,
            "map": self.map.astype(float).round(6).tolist(),
            "seen": self.box,
            "deletion": {"map": self.score, "random": self.random},
            "better_than_random": self.holds,
            "sentence": self.sentence,
        }


class Explanations(list[Explanation], Displayed):
    """A list of explanations, which a notebook shows."""

    _html = "zoo_core.report.explanations:explanations_html"

    def draw(self, path: str | Path) -> list[Path]:
        """Write the plot, or as many pages as it needs; their paths."""
        draw = resolve("zoo_core.report.explanations:draw_explanations", "drawing an explanation")
        pages: list[Path] = draw(Path(path), self)
        return pages


def explain(
    run: Any,
    images: Any,
    *,
    method: str = "",
    target: str = "",
    device: str = "auto",
    runs: Path | None = None,
) -> Explanations:
    """Where in images a model found its answers, and whether hiding these places changes them.

        found = zoo.explain("cnn", "cat.jpg")[0]     # a notebook draws it
        found.map, found.score, found.random         # (rows, columns) and figures
        found.draw("cat.png")

    run, images: as for `zoo.predict`. method: cam (Grad-CAM: gradients times feature maps),
    attention (of models that declare it) or occlusion (any model: parts of the image are hidden in
    turn); "" takes the first of these that the model has. target: the class, or the number, to
    explain; "" takes the most likely class, or the first number.
    """
    if method and method not in METHODS:
        raise UsageError(f"there is no method {method!r}", f"there are {', '.join(METHODS)}")
    named = named_images(run, several(images))
    model = loaded(run, runs, device)
    answers = answers_of(model)
    index = _index(answers, target)
    found = Explanations()
    with progress("explaining", len(named)) as advance:
        for name, image in named:
            found.append(_explain(Asked(model, answers, opened(image)), name, method, index))
            advance(1)
    return found


def _index(answers: Answers, target: str) -> int | None:
    """The column of what is to be explained; None: that of the most likely class."""
    names = answers.targets.names
    if not target:
        return 0 if answers.targets.kind == NUMBERS else None
    if target not in names:
        hint = did_you_mean(target, names, f"it has: {', '.join(names[:20])}")
        raise UsageError(f"the model knows no {target!r}", hint)
    return names.index(target)


class Asked:
    """A model and one image, whose parts can be hidden from it."""

    def __init__(self, model: Any, answers: Answers, image: Any) -> None:
        self.model, self.answers, self.image = model, answers, image
        about = model.zoo
        self.entry, self.preprocess = about.entry, about.preprocess
        self.framework: Framework = framework_of(self.entry)
        self.put: Callable[[np.ndarray], Any] = open_ops(self.framework.backend).put
        self.pixels = self.preprocess.batch([image], backend="numpy")[0]  # (c, size, size)
        few = (_resized(plane, VEIL, Image.Resampling.BOX) for plane in self.pixels)
        self.veil = np.stack([_resized(plane, self.preprocess.size) for plane in few])
        self.row = self.rows([np.zeros(self.pixels.shape[1:], bool)])[0]

    def rows(self, masks: Sequence[np.ndarray]) -> np.ndarray:
        """What the model says where the pixels of a mask (size, size) are hidden, one by one."""
        found = []
        for part in blocks(len(masks), min(EVALUATION_BATCH, self.preprocess.at_once)):
            shown = np.stack([np.where(mask, self.veil, self.pixels) for mask in masks[part]])
            batch = self.put(shown.astype(np.float32))
            found.append(readable(self.model, self.framework, self.answers, batch))
        return np.concatenate(found)

    def kept(self, masks: Sequence[np.ndarray], index: int) -> np.ndarray:
        """What is left of the answer: a probability, or how far a number is away, as minus."""
        left = self.rows(masks)[:, index]
        numbers = self.answers.targets.kind == NUMBERS
        return -np.abs(left - self.row[index]) if numbers else left

    def cam(self, index: int) -> np.ndarray | None:
        return self.framework.evidence(self.model, self.put(self.pixels[None]), index)

    def attention(self) -> np.ndarray:
        """The mean over layers and heads of what the capability gives."""
        maps = capability(self.entry, "attention")(self.model, self.put(self.pixels[None]))
        if not isinstance(maps, np.ndarray) or maps.ndim != 5 or maps.shape[1] != 1:
            given = maps.shape if isinstance(maps, np.ndarray) else type(maps).__name__
            raise PluginError(
                f"the attention of model {self.entry.name!r} must be an array of (layers, images, "
                f"heads, rows, columns), not {given}",
                "docs/hooks.md says what the capability returns",
            )
        return np.asarray(maps[:, 0].mean((0, 1)))

    def occlusion(self, index: int) -> np.ndarray:
        """What the answer loses where a square around each cell is hidden."""
        size = self.preprocess.size
        cells = min(CELLS, size)
        middles, half = (np.arange(cells) + 0.5) * size / cells, PATCH * size / cells / 2
        inside = np.abs(np.arange(size) + 0.5 - middles[:, None]) <= half  # (cells, size)
        masks = [row[:, None] & column for row in inside for column in inside]
        whole = self.kept([np.zeros((size, size), bool)], index)
        return np.reshape(whole - self.kept(masks, index), (cells, cells))

    def deletion(self, maps: Iterable[np.ndarray], index: int) -> list[float]:
        """For each map (size, size) the mean of what is left while its pixels are hidden."""
        size = self.preprocess.size
        hidden = [np.zeros((size, size), bool), np.ones((size, size), bool)]  # the same for all
        for map in maps:
            rank = np.empty(size**2, np.int64)
            rank[np.argsort(-map, axis=None, kind="stable")] = np.arange(size**2)
            steps = (step * size**2 / STEPS for step in range(1, STEPS))
            hidden += [rank.reshape(size, size) < step for step in steps]
        first, last, *between = self.kept(hidden, index)
        areas = np.reshape(between, (-1, STEPS - 1)).sum(1) + (first + last) / 2
        return [float(area / STEPS) for area in areas]


def _explain(asked: Asked, name: str, method: str, index: int | None) -> Explanation:
    answers, numbers = asked.answers, asked.answers.targets.kind == NUMBERS
    best = int(asked.row.argmax()) if not numbers else 0
    index = best if index is None else index
    method, map = _map(asked, method, index)
    map = map / (np.abs(map).max() or 1.0)
    large = _resized(map, asked.preprocess.size)
    rng = np.random.default_rng(0)
    areas = asked.deletion([large, *(random_like(large, rng) for _ in range(DRAWS))], index)
    score, *random = (abs(area) for area in areas)
    pixels = _original(asked.image)
    return Explanation(
        name, answers.targets.names[index], float(asked.row[index]),
        answers.targets.names[index if numbers else best], method, map, score, tuple(random),
        numbers, pixels, _box(asked.preprocess, pixels),
    )  # fmt: skip


def _map(asked: Asked, method: str, index: int) -> tuple[str, np.ndarray]:
    """A map of any number of rows and columns, and how it was made."""
    numbers = asked.answers.targets.kind == NUMBERS
    if numbers and method not in ("", "occlusion"):
        raise UsageError("a number is explained by occlusion alone", "leave out --method")
    if not numbers and method != "occlusion":
        if method != "attention" and (map := asked.cam(index)) is not None:
            return "cam", map
        if method == "cam":
            what = f"model {asked.entry.name!r} has no feature maps that Grad-CAM could use"
            raise UsageError(what, "use --method occlusion")
        if method == "attention" or "attention" in asked.entry.capabilities:
            return "attention", asked.attention()
    return "occlusion", asked.occlusion(index)


def random_like(map: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random map of the same smoothness: its waves are as strong, but shifted at random."""
    strong = np.abs(np.fft.fft2(map - map.mean()))
    shifts = np.angle(np.fft.fft2(rng.standard_normal(map.shape)))
    return np.asarray(np.fft.ifft2(strong * np.exp(1j * shifts)).real)


def _resized(
    plane: np.ndarray, size: int, how: Image.Resampling = Image.Resampling.BICUBIC
) -> np.ndarray:
    return np.asarray(Image.fromarray(plane.astype(np.float32)).resize((size, size), how))


def _box(preprocess: Preprocess, pixels: np.ndarray) -> tuple[float, float, float, float]:
    """The part of an image that the model sees; it is larger than the image where it is padded."""
    sides = pixels.shape[1], pixels.shape[0]
    side = {"crop": min(sides), "pad": max(sides)}.get(preprocess.fit)
    share = preprocess.size / (preprocess.resize or preprocess.size)
    width, height = (share * (side or own) / own for own in sides)
    return (1 - width) / 2, (1 - height) / 2, (1 + width) / 2, (1 + height) / 2


def _original(image: Any) -> np.ndarray:
    """The whole image, upright and in colour, as sharp as a plot can show it."""
    if isinstance(image, np.ndarray):
        image = Image.fromarray(image[:, :, 0] if image.shape[2:] == (1,) else image)
    elif not hasattr(image, "getbands"):
        image = open_image(image)
    upright = decoded(image, Form(SHARPEST, 3)).copy()
    upright.thumbnail((SHARPEST, SHARPEST))
    return np.asarray(upright, np.uint8)
