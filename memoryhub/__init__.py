"""The project: settings, URLs, and the supervisor of its processes."""
