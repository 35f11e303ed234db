"""What zoo-explain contributes: a command, whose code is imported when somebody uses it."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(
            name="explain",
            target="zoo_explain.command:explain_command",
            help="Draw where in images a model found its answers, and check that it holds.",
            functions=("zoo_explain.explain:explain",),
        )
    ]
