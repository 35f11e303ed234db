"""Images that a page shows of a model: samples, walks through latent space, explanations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import zoo
from zoo_web.measured import image_of, strip

STOPS, STEPS = 5, 6  # samples that a walk visits, and steps from each to the next
MOST_CLASSES = 10  # that are walked through
EXPLAINED = 4  # images
SHARPEST = 192  # pixels of an explained image
HOT = (235, 94, 40)  # what matters most


def walk(sampler: Any, folder: Path) -> dict[str, Any]:
    """For each class, or once, a way from sample to sample and back to the first."""
    labels = list(sampler.labels[:MOST_CLASSES])
    noise = between(sampler.noise(STOPS, seed=0))
    images: list[np.ndarray] = []
    for place in range(max(len(labels), 1)):
        chosen = np.full(len(noise), place, np.int64) if labels else None
        drawn = sampler.draw(noise, chosen).images
        images += [np.broadcast_to(one, (*one.shape[:2], 3)) for one in drawn]
    return {
        "classes": labels,
        "frames": len(noise),
        "strip": strip(folder / "walk.webp", images, columns=len(noise)),
    }


def between(stops: np.ndarray) -> np.ndarray:
    """Steps along the sphere that noise lies on, from each stop to the next, around."""
    flat = stops.reshape(len(stops), -1).astype(np.float64)
    found = []
    for one, other in zip(flat, np.roll(flat, -1, 0), strict=True):
        cosine = one @ other / (np.linalg.norm(one) * np.linalg.norm(other))
        angle = np.arccos(np.clip(cosine, -1, 1))
        for share in np.arange(STEPS) / STEPS:
            ways = np.sin((1 - share) * angle), np.sin(share * angle)
            found.append((ways[0] * one + ways[1] * other) / max(np.sin(angle), 1e-9))
    return np.stack(found).reshape(-1, *stops.shape[1:]).astype(np.float32)


def explanations(model: Any, data: zoo.Dataset, folder: Path) -> dict[str, Any]:
    """A few test images of different classes, each beside where its answer was found."""
    split = data.test or data.train
    told, pairs = [], []
    for number, found in enumerate(zoo.explain(model, [image_of(split, r) for r in chosen(split)])):
        told.append(
            {
                "answer": found.answer,
                "sentence": found.sentence,
                "method": found.method,
                "holds": found.holds,
                "number": number,
            }
        )
        pairs += heated(found)
    return {
        "explained": told,
        "strip": strip(folder / "explained.webp", pairs, columns=2, side=SHARPEST),
    }


def chosen(split: zoo.Split) -> list[int]:
    """The first image of each of the first classes."""
    if split.labels is None or np.ndim(split.labels) != 1:
        return list(range(min(EXPLAINED, len(split))))
    _, rows = np.unique(np.asarray(split.labels), return_index=True)
    return [int(row) for row in np.sort(rows)[:EXPLAINED]]


def heated(found: Any) -> list[np.ndarray]:
    """The image, and the same with what matters in colour."""
    image = Image.fromarray(found.pixels).convert("RGB")
    scale = SHARPEST / max(image.size)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    pixels = np.asarray(image.resize(size, Image.Resampling.NEAREST)).astype(np.float32)
    left, top, right, bottom = (
        round(share * side) for share, side in zip(found.box, (*size, *size), strict=True)
    )
    part = Image.fromarray(np.clip(found.map, 0, 1).astype(np.float32))
    heat = np.zeros(size[::-1], np.float32)
    inner = part.resize((max(right - left, 1), max(bottom - top, 1)), Image.Resampling.BICUBIC)
    heat[top:bottom, left:right] = np.asarray(inner)[: bottom - top, : right - left]
    share = (0.75 * np.clip(heat, 0, 1))[..., None]
    grey = pixels.mean(2, keepdims=True) * 0.75 + 40
    return [pixels.astype(np.uint8), (grey * (1 - share) + np.array(HOT) * share).astype(np.uint8)]
