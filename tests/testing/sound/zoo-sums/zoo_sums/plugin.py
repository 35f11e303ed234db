import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_trainers():
    return [
        zoo.TrainerEntry(
            name="sums",
            target="zoo_sums.trainer:SumsTrainer",
            summary="Softmax regression on NumPy",
            framework="numpy",
        )
    ]


@zoo.hookimpl
def zoo_models():
    return [
        zoo.ModelEntry(
            name="sums",
            target="zoo_sums.sums:Sums",
            summary="Softmax regression on pixels",
            image_size=8,
            parameters=1_930,
            trainer="sums",
            framework="numpy",
            recipes={"default": zoo.Recipe(optimizer="sgd", lr=0.01, epochs=5)},
        )
    ]


@zoo.hookimpl
def zoo_commands():
    return [zoo.CommandEntry(name="sums", target="zoo_sums.command:sums", help="Add up pixels")]
