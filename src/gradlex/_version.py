"""The version, the one place that holds it."""

__version__ = "1.0.0"
