"""The project: settings, URLs, and the supervisor of its processes."""

__version__ = "0.1.0"
