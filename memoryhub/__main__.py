"""The command line: `manage.py` in a checkout, `memoryhub` when installed."""

import os
import sys


def main() -> None:
    # Django loads the settings, which need the environment file.
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    from memoryhub import __version__
    from memoryhub.database import connection_problem
    from memoryhub.env import read_env_file
    from memoryhub.private import close_to_others, write_privately

    program, *arguments = sys.argv
    if arguments == ["--version"]:
        sys.stdout.write(f"memoryhub {__version__}\n")
        return
    if arguments and not arguments[0].startswith("-"):
        arguments[0] = arguments[0].replace("-", "_")  # `memoryhub upgrade-check`
    write_privately()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")
    try:
        read_env_file()
        close_to_others()
        execute_from_command_line([program, *arguments])
    except ImproperlyConfigured as error:
        sys.exit(f"Wrong setting: {error}")
    except OperationalError:  # Django has closed the connections of the command
        if problem := connection_problem():
            sys.exit(problem)
        raise


if __name__ == "__main__":
    main()
