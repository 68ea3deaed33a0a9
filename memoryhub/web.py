"""How gunicorn runs: its configuration file, used by `manage.py serve`."""

from typing import Any

from django.conf import settings

wsgi_app = "memoryhub.wsgi:application"
worker_class = "gthread"
workers = 2
threads = 4
timeout = 60
graceful_timeout = 10
control_socket_disable = True
# No log of requests: addresses hold what people search for, and a proxy in front has its own.
accesslog = None
_loggers: dict[str, Any] = settings.LOGGING["loggers"]
logconfig_dict = settings.LOGGING | {
    "loggers": _loggers | {"gunicorn.error": {"level": "INFO", "handlers": [], "propagate": True}}
}
