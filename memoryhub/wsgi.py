"""The WSGI application."""

import os
from typing import Any

import django
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.utils.http import parse_header_parameters

from memories.rules.ingest.characters import is_charset
from memoryhub.env import read_env_file
from memoryhub.private import close_to_others, write_privately


class Request(WSGIRequest):
    """A request of any content type.

    Django fails before any middleware if it cannot decode the parameters of the type, or the query
    in their charset. `StorableInput` refuses such a request.
    """

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        try:
            parsed = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        except ValueError:
            parsed = "", {"charset": ""}
        self.content_type, self.content_params = parsed
        charset = self.content_params.get("charset", "")
        if is_charset(charset):
            self._encoding = charset


class Application(WSGIHandler):
    request_class = Request


write_privately()
read_env_file()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")

django.setup(set_prefix=False)
application = Application()
close_to_others()
