"""`python -m oomdoctor`, where the command itself is not on the path."""

from oomdoctor.cli import main

main()
