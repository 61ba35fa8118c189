"""The app with all commands."""

from oomdoctor.cli.commands import app_for

app = app_for()
