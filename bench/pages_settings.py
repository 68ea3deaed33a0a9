"""The product's settings, with one page more."""

from memoryhub.settings import *  # noqa: F403
from memoryhub.settings import BASE_DIR, TEMPLATES

ROOT_URLCONF = "bench.pages_urls"
TEMPLATES[0]["DIRS"].append(BASE_DIR / "bench" / "templates")
