"""Two small datasets of photographs. Light, like every plugin.py."""

from __future__ import annotations

import zoo

ZOO_API = 1

GROCERIES = (
    "Anjou", "Cantaloupe", "Conference", "Galia-Melon", "Golden-Delicious", "Granny-Smith",
    "Honeydew-Melon", "Kaiser", "Orange", "Pink-Lady", "Red-Delicious", "Royal-Gala", "Satsumas",
    "Watermelon",
)  # fmt: skip


@zoo.hookimpl
def zoo_datasets() -> list[zoo.DatasetEntry]:
    return [
        zoo.DatasetEntry(
            name="groceries",
            target="zoo_photos.photos:groceries",
            summary="Photographs of 14 sorts of fruit, taken in shops with a telephone",
            classes=GROCERIES,
            in_channels=3,
            train_size=732,
            test_size=661,
            originals=True,
            digests={
                "train_images": "fa5bb2085d80c99d5eedb0326faa4331004c430778a9d9a6a1221006962fedeb",
                "train_labels": "7ed2f6a18b2467f50ce076ad7cb532b94e07efd0ab1b353b4aac268e27c201bc",
                "test_images": "039963302ab842a3d690c08f61c011d982c9b23e6926494b962020ea10c9b295",
                "test_labels": "ab024bcc52ebcab58e8923e0b69b0c6508ce15e78be37aea6b3478a4e24e859b",
            },
            license="MIT",
            reference="https://github.com/marcusklasson/GroceryStoreDataset",
            tags=("photographs", "small"),
        ),
        zoo.DatasetEntry(
            name="traffic_lights",
            target="zoo_photos.photos:traffic_lights",
            summary="Photographs of traffic lights, cut out: red, yellow (44 of 1,484) or green",
            classes=("green", "red", "yellow"),
            in_channels=3,
            train_size=1187,
            test_size=297,
            originals=True,
            digests={
                "train_images": "57df4d6c23321b8a1789fa75461791a42198c10e1fe292572f24b9eccedd0ccb",
                "train_labels": "ad77cdfa7d67da60ec5125ea3209974bdeedc79c066139a2f524a89b55802b4a",
                "test_images": "a6fb432388c1987a35c31aefcc73c6dbe4b882412b8ee6405334317fcd02278f",
                "test_labels": "71070d770b21003ca82b392d7eb49684398f0e0d9b349f2d5f6ef6bfcf056f16",
            },
            license="CC BY-SA 4.0",
            reference="https://selfdrivingcars.mit.edu/",
            tags=("photographs", "small"),
        ),
    ]
