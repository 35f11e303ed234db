"""What zoo-blend contributes: a command, its function, and the task of a student."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(
            name="blend",
            target="zoo_blend.command:blend_command",
            help="Say what an ensemble of runs would gain, and train a student on it.",
            functions=("zoo_blend.blend:blend", "zoo_blend.task:Distil"),
        )
    ]
