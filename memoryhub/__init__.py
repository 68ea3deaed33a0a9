"""The project: settings, addresses and what keeps the processes alive."""
