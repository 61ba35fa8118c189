"""Where the causes look for what stands in doing.py."""

from oomdoctor.job.doing import OF_A_TRACEBACK

__all__ = ["OF_A_TRACEBACK"]
