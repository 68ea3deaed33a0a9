"""What gunicorn serves."""

import os

from django.core.wsgi import get_wsgi_application

from memoryhub.env import read_env_file

read_env_file()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memoryhub.settings")

application = get_wsgi_application()
