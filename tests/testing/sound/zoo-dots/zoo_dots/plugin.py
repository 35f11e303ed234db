import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_datasets():
    return [
        zoo.DatasetEntry(
            name="dots",
            target="zoo_dots.dots:dots",
            summary="A bright dot on the left or on the right",
            classes=("left", "right"),
            in_channels=3,
            image_size=8,
            train_size=80,
            test_size=20,
            mean=(0.134, 0.135, 0.134),
            std=(0.228, 0.228, 0.228),
            digests={
                "train_images": "c0ba19498dff39452b5c4c48f0e6277cac289ecf40db10fa7c95e5816b54b85a",
                "train_labels": "48a75c0c919df1a5f4b42b1c2b42b444dd36b4645e438f521ed3e3db79fb5697",
                "test_images": "3f1e91e144fd916773154d496f5902b05fb83f8cad5a2b8e6232ddaad525cf37",
                "test_labels": "0d10294fff018f2da6a7e0470fe64ec5fde1f3deebaeb7d09e319dd37a8eed07",
            },
            config={"shade": 40},
        )
    ]


@zoo.hookimpl
def zoo_augmentations():
    return [
        zoo.AugmentationEntry(
            name="dim",
            target="zoo_dots.words:Dim",
            summary="Make images darker",
            example="dim:0.5",
        )
    ]
