"""What zoo-web contributes: commands, whose code is imported when somebody uses them."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(
            name="gallery",
            target="zoo_web.command:gallery_command",
            help="Write a site of all trained models, which compute in the browser.",
            functions=(
                "zoo_web.gallery:gallery",
                "zoo_web.reports.write:report_html",  # zoo report --html, zoo compare --html
                "zoo_web.reports.write:compare_html",
            ),
        ),
        zoo.CommandEntry(
            name="serve",
            target="zoo_web.server.command:serve_command",
            help="Answer about images over HTTP, with a page to try it.",
            functions=("zoo_web.server.run:serve",),
        ),
    ]
