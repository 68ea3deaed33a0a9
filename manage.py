#!/usr/bin/env python
"""Memory Hub's command line."""

import os
import sys


def main() -> None:
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    from memoryhub.env import read_env_file
    from memoryhub.private import close_to_others, write_privately

    write_privately()
    read_env_file()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    try:
        close_to_others()
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"Wrong setting: {error}")


if __name__ == "__main__":
    main()
