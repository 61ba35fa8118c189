"""Where the causes look for what stands in frames.py."""

from oomdoctor.job.frames import ends_in_building, places_a_model

__all__ = ["ends_in_building", "places_a_model"]
