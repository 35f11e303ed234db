"""What zoo-check contributes: a command of the group `zoo data`, and its functions in Python."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(
            name="data check",
            target="zoo_check.command:check_command",
            help="Look for broken images, copies and labels that are probably wrong.",
            functions=("zoo_check.check:check_data", "zoo_check.labels:check_labels"),
        )
    ]
