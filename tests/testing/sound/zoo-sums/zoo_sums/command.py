import click

import zoo.kit


@zoo.kit.command()
@click.argument("image")
def sums(image):
    """Add up the pixels of an image."""
    zoo.kit.say(image)
