"""What zoo-export contributes: a command, whose code is imported when somebody uses it."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(
            name="export",
            target="zoo_export.command:export_command",
            help="Write a trained model for other programs: ONNX, or a program of torch.",
            functions=("zoo_export.export:export",),
        )
    ]
