"""The WSGI application."""

import os

from django.core.wsgi import get_wsgi_application

from memoryhub.env import read_env_file
from memoryhub.private import close_to_others, write_privately

write_privately()
read_env_file()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")

application = get_wsgi_application()
close_to_others()
