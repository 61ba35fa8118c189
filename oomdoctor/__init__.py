"""oomdoctor reads the log of a job that died of memory and says what ran out, who held it, why, and what to change."""

__version__ = "0.1.0"
