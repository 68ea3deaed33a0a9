"""Settings of Memory Hub. Every option is an environment variable: docs/settings.md.

`MEMORYHUB_URL` is the address that people type. It sets the allowed hosts, trusted origins, secure
cookies and the redirect to https.
"""

import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from memories.rules.access.claims import parse_claim_roles
from memories.rules.summariser import MAX_MODEL_NAME
from memoryhub.env import BASE_DIR, HOME_DIR, IS_CHECKOUT, PACKAGE_DIR, env
from memoryhub.logs import logging_config
from memoryhub.secret_key import kept_keys, kept_secret_key, read_keys

# Where and how it runs

DEBUG = env.bool("MEMORYHUB_DEBUG", default=False)
MEMORYHUB_VAR = HOME_DIR / (env.str("MEMORYHUB_VAR", default="") or ("var" if IS_CHECKOUT else "."))
PORT = env.int("PORT", default=8000)
MEMORYHUB_KEY = env.str("MEMORYHUB_KEY", default="")
MEMORYHUB_URL = env.str("MEMORYHUB_URL", default=f"http://localhost:{PORT}").rstrip("/")

_url = urlsplit(MEMORYHUB_URL)
if _url.scheme not in ("http", "https") or not _url.hostname or _url.path or _url.query:
    raise ImproperlyConfigured(
        f"MEMORYHUB_URL must be like https://memory.example.com, without a path: {MEMORYHUB_URL!r}"
    )

SECRET_KEY = env.str("SECRET_KEY", default="") or kept_secret_key(MEMORYHUB_VAR)

# Keys for encrypted columns (memories/rules/safety/encryption.py): the first encrypts, all decrypt.
MEMORYHUB_KEYS = read_keys(
    env.str("MEMORYHUB_KEYS", default="") or kept_keys(MEMORYHUB_VAR), "MEMORYHUB_KEYS"
)

# Local names stay allowed for health checks that do not pass through the proxy.
ALLOWED_HOSTS = [_url.hostname, "localhost", "127.0.0.1", "[::1]"]
CSRF_TRUSTED_ORIGINS = [MEMORYHUB_URL]

if _url.scheme == "https":
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$", r"^metrics$"]
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    # HSTS for subdomains and preloading: other hosts of the domain may not use https.
    SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# Applications

INSTALLED_APPS = [
    "memories",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_q",
    "django_htmx",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.idp.oidc",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
]

MIDDLEWARE = [
    "memoryhub.metrics.measure_requests",
    "memoryhub.tracing.trace_requests",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "memories.views.pages.CompressPages",
    "csp.middleware.CSPMiddleware",
    "memories.views.pages.vary_on_htmx",
    "memories.views.pages.no_store",
    "memories.api.middleware.api_headers",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "memories.views.inputs.StorableInput",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "memories.views.pages.keep_typed_text",
    "memories.views.access.preferences.applied",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "memories.views.search.indexing.index_after_post",
]

ROOT_URLCONF = "memoryhub.urls"
WSGI_APPLICATION = "memoryhub.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [(BASE_DIR if IS_CHECKOUT else PACKAGE_DIR) / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# Pages load no file from another host and contain no inline script or style.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "base-uri": ["'none'"],
        "object-src": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    },
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

# Database

_database_url = (
    env.str("DATABASE_URL", default="") or f"sqlite:///{MEMORYHUB_VAR / 'memoryhub.sqlite3'}"
)
if not _database_url.startswith(("sqlite:///", "postgres://", "postgresql://")):
    raise ImproperlyConfigured("DATABASE_URL must begin with sqlite:/// or postgres://.")
try:
    _database: dict[str, Any] = env.db_url_config(_database_url)
except ValueError:  # its text has a part of the password
    raise ImproperlyConfigured(
        "DATABASE_URL cannot be read. Write / ? # % and @ of a password as %2F %3F %23 %25 and %40."
    ) from None
DATABASES = {"default": _database}
_database.setdefault("OPTIONS", {})
if _database["ENGINE"] == "django.db.backends.sqlite3":
    # Without both IMMEDIATE and WAL, two writers fail with "database is locked".
    _database["OPTIONS"] |= {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": (
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
            " PRAGMA journal_size_limit=27103364; PRAGMA cache_size=2000;"
            " PRAGMA secure_delete=ON;"  # no deleted text stays in a free page
        ),
    }
    if _database["NAME"] != ":memory:":
        _database["NAME"] = str(HOME_DIR / _database["NAME"])
        Path(_database["NAME"]).parent.mkdir(parents=True, exist_ok=True)
else:
    # Never OPTIONS["pool"]: a pool does not survive a fork of the worker.
    # In a new connection PostgreSQL reads its catalogue again: the first page takes twice as long.
    _database["CONN_MAX_AGE"] = 3600
    # A firewall may drop an idle connection. Without these, a page waits a quarter of an hour for it.
    _keep_alive = {"keepalives_idle": 60, "keepalives_interval": 10, "keepalives_count": 3}
    _database["OPTIONS"] = _keep_alive | {"tcp_user_timeout": 30_000} | _database["OPTIONS"]
    _database["CONN_HEALTH_CHECKS"] = True

# The summariser: a model if MEMORYHUB_MODEL names one, otherwise the offline one.

OPENAI_API_KEY = env.str("OPENAI_API_KEY", default="")
OPENAI_BASE_URL = env.str("OPENAI_BASE_URL", default="")
MEMORYHUB_MODEL = env.str("MEMORYHUB_MODEL", default="")
if len(MEMORYHUB_MODEL) > MAX_MODEL_NAME:
    raise ImproperlyConfigured(f"MEMORYHUB_MODEL must have at most {MAX_MODEL_NAME} characters.")
MEMORYHUB_LLM_CONCURRENCY = env.int("MEMORYHUB_LLM_CONCURRENCY", default=8)
MEMORYHUB_LLM_TIMEOUT = env.float("MEMORYHUB_LLM_TIMEOUT", default=60.0)  # seconds
MEMORYHUB_LEASE = env.float("MEMORYHUB_LEASE", default=180.0)  # seconds
# Seconds before the first retry, doubled for each later one.
MEMORYHUB_BACK_OFF = env.float("MEMORYHUB_BACK_OFF", default=30.0)
if _database["ENGINE"] != "django.db.backends.sqlite3":
    # A worker that is frozen in a transaction must release its locks.
    _lock_limit = int(1000 * max(10.0, MEMORYHUB_LEASE / 2))  # milliseconds
    _url_options = _database["OPTIONS"].get("options", "")
    _limits = f"-c idle_in_transaction_session_timeout={_lock_limit} -c lock_timeout={_lock_limit}"
    # Queries of pages are short and read from memory. Parallel workers and JIT take longer to start
    # than such a query takes.
    _short = "-c random_page_cost=1.5 -c max_parallel_workers_per_gather=0 -c jit=off"
    _database["OPTIONS"]["options"] = f"{_short} {_url_options} {_limits}".strip()
MEMORYHUB_FAIL_POINTS = env.str("MEMORYHUB_FAIL_POINTS", default="")  # for tests: failpoints.py

# The worker. Its supervisor sets its name.
MEMORYHUB_WORKERS = env.int("MEMORYHUB_WORKERS", default=2)
MEMORYHUB_HEARTBEAT = env.float("MEMORYHUB_HEARTBEAT", default=60.0)  # seconds
# Seconds between two queries of an idle worker for tasks in the database.
MEMORYHUB_POLL = env.float("MEMORYHUB_POLL", default=min(1.0, MEMORYHUB_HEARTBEAT / 4))
MEMORYHUB_BROKER = env.str("MEMORYHUB_BROKER", default="")
MEMORYHUB_WORKER_NAME: str = env.str("MEMORYHUB_WORKER_NAME", default="")

if MEMORYHUB_BROKER and not MEMORYHUB_BROKER.startswith(("redis://", "rediss://")):
    raise ImproperlyConfigured(
        "MEMORYHUB_BROKER must begin with redis:// or rediss://, or be empty: the queue is then in"
        " the database."
    )

# django-q2 runs a task once. Jobs, which are rows of the database, have the retries, the backoff and the
# dead letters. A task stops early enough for its last claim, which may make 16 calls in sequence.
_longest_claim = int(17 * MEMORYHUB_LLM_TIMEOUT)
_task_seconds = max(300, _longest_claim + 180)
MEMORYHUB_TASK_WORKS = min(_task_seconds // 2, _task_seconds - _longest_claim)  # seconds
Q_CLUSTER: dict[str, Any] = {
    "name": "memoryhub",
    "cache": "clusters",
    "orm": "default",
    "broker_class": "memoryhub.database_queue.DatabaseQueue",
    "workers": MEMORYHUB_WORKERS,
    "queue_limit": MEMORYHUB_WORKERS,
    "bulk": 1,
    "timeout": _task_seconds,
    "retry": 4 * _task_seconds,
    "max_attempts": 1,
    "ack_failures": True,
    "catch_up": False,
    "recycle": 200,
    "max_rss": 300_000,
    "poll": MEMORYHUB_POLL,
    "save_limit": 500,
    # Required: with Q_CLUSTER_NAME set, django-q2 reads this first.
    "ALT_CLUSTERS": {},
}
if MEMORYHUB_BROKER:
    Q_CLUSTER |= {
        "orm": None,
        "broker_class": "memoryhub.redis_queue.RedisQueue",
        "redis": MEMORYHUB_BROKER,
    }

# People

AUTH_USER_MODEL = "memories.User"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

# django-allauth signs people in by user name. Nobody can sign up. It counts attempts in the database, for
# all web processes together.
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
CACHES = {
    "default": {"BACKEND": "memoryhub.login_cache.LoginCache", "LOCATION": "memoryhub_cache"},
    # django-q2 writes the state of each cluster here twice a second. Nothing reads it.
    "clusters": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
}
ACCOUNT_ADAPTER = "memories.logins.Accounts"
ACCOUNT_FORMS = {"login": "memories.logins.LoginForm"}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_RATE_LIMITS = {
    "login": None,  # it would also refuse known devices of the address
    "login_address": "20/m/ip",  # our own, for unknown devices: memories/logins.py
    "login_failed": "5/5m/key",  # by account (and address) or device
    "factor": "5/5m/key",  # our own, by device, or by person and address: memories/factor_forms.py
    "factor_person": "10/5m/key",  # our own, by person, for unknown devices
    "feed": "60/m/ip",  # our own: memories/views/memory/digests.py
}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_LOGOUT_REDIRECT_URL = LOGOUT_REDIRECT_URL
# The number of proxies that add to X-Forwarded-For, to find the address that attempts are counted for.
ALLAUTH_TRUSTED_PROXY_COUNT = env.int("MEMORYHUB_PROXIES", default=0)

# Digests by e-mail. Without a host nothing is sent.
EMAIL_HOST = env.str("EMAIL_HOST", default="")
EMAIL_PORT = env.int("EMAIL_PORT", default=587)
EMAIL_HOST_USER = env.str("EMAIL_HOST_USER", default="")
EMAIL_HOST_PASSWORD = env.str("EMAIL_HOST_PASSWORD", default="")
EMAIL_USE_TLS = env.bool("EMAIL_USE_TLS", default=True)
EMAIL_USE_SSL = env.bool("EMAIL_USE_SSL", default=False)
EMAIL_TIMEOUT = 20  # seconds
DEFAULT_FROM_EMAIL = env.str("DEFAULT_FROM_EMAIL", default=f"memoryhub@{_url.hostname}")

# An optional second factor, also after a sign-in with Slack and before the admin.
MFA_ADAPTER = "memories.factors.Factors"
MFA_FORMS = {
    "authenticate": "memories.factor_forms.CodeForm",
    "reauthenticate": "memories.factor_forms.CodeAgainForm",
    "authenticate_webauthn": "memories.factor_forms.KeyForm",
    "reauthenticate_webauthn": "memories.factor_forms.KeyAgainForm",
}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_ALLOW_UNVERIFIED_EMAIL = True  # an operator or Slack creates accounts

# Sign-in with Slack, if the client id and secret of an app are set.
SLACK_CLIENT_ID = env.str("SLACK_CLIENT_ID", default="")
SLACK_CLIENT_SECRET = env.str("SLACK_CLIENT_SECRET", default="")
SLACK_OPENID_URL = env.str("SLACK_OPENID_URL", default="https://slack.com")
SOCIALACCOUNT_ADAPTER = "memories.logins.SocialLogins"
# A link instead of a form, because form-action above allows no form to another site.
SOCIALACCOUNT_LOGIN_ON_GET = True
SOCIALACCOUNT_STORE_TOKENS = False
_openid_apps: list[dict[str, Any]] = []
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": _openid_apps}}
if SLACK_CLIENT_ID and SLACK_CLIENT_SECRET:
    _openid_apps.append(
        {
            "provider_id": "slack",
            "name": "Slack",
            "client_id": SLACK_CLIENT_ID,
            "secret": SLACK_CLIENT_SECRET,
            "settings": {"server_url": SLACK_OPENID_URL},
        }
    )

# Single sign-on with any other OpenID Connect provider.
MEMORYHUB_OIDC_ISSUER = env.str("MEMORYHUB_OIDC_ISSUER", default="").rstrip("/")
# Earlier addresses of the same provider.
MEMORYHUB_OIDC_FORMER_ISSUERS = [
    issuer.strip().rstrip("/") for issuer in env.list("MEMORYHUB_OIDC_FORMER_ISSUERS", default=[])
]
MEMORYHUB_OIDC_CLIENT_ID = env.str("MEMORYHUB_OIDC_CLIENT_ID", default="")
MEMORYHUB_OIDC_CLIENT_SECRET = env.str("MEMORYHUB_OIDC_CLIENT_SECRET", default="")
MEMORYHUB_OIDC_NAME = env.str("MEMORYHUB_OIDC_NAME", default="single sign-on")
MEMORYHUB_OIDC_TRUST_EMAIL = env.bool("MEMORYHUB_OIDC_TRUST_EMAIL", default=False)
MEMORYHUB_OIDC_SCOPES = env.str("MEMORYHUB_OIDC_SCOPES", default="openid profile email")
try:
    MEMORYHUB_OIDC_ROLES = parse_claim_roles(env.str("MEMORYHUB_OIDC_ROLES", default=""))
except ValueError as error:
    raise ImproperlyConfigured(f"MEMORYHUB_OIDC_ROLES: {error}") from error
if MEMORYHUB_OIDC_ISSUER and MEMORYHUB_OIDC_CLIENT_ID:
    _openid_apps.append(
        {
            "provider_id": "sso",
            "name": MEMORYHUB_OIDC_NAME,
            "client_id": MEMORYHUB_OIDC_CLIENT_ID,
            "secret": MEMORYHUB_OIDC_CLIENT_SECRET,
            "settings": {
                "server_url": MEMORYHUB_OIDC_ISSUER,
                "oauth_pkce_enabled": True,
                "scope": MEMORYHUB_OIDC_SCOPES.split(),
            },
        }
    )

# Web clients of MCP sign people in with OAuth (memories/views/access/oauth.py). Of allauth's provider the
# hub uses opaque tokens of public clients alone. There are no ID tokens, and so no signing key.
MEMORYHUB_OAUTH = env.bool("MEMORYHUB_OAUTH", default=False)
MEMORYHUB_OAUTH_HOSTS = env.list(
    "MEMORYHUB_OAUTH_HOSTS", default=["claude.ai", "claude.com", "chatgpt.com"]
)
IDP_OIDC_ADAPTER = "memories.oauth.Adapter"
IDP_OIDC_ACCESS_TOKEN_EXPIRES_IN = 15 * 60  # seconds
IDP_OIDC_REFRESH_TOKEN_EXPIRES_IN = 30 * 24 * 3600
IDP_OIDC_AUTH_METHODS = ["none"]
IDP_OIDC_DCR_REQUIRES_INITIAL_ACCESS_TOKEN = False
IDP_OIDC_RATE_LIMITS = {"client_registration": "10/m/ip"}

# Language and time

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("ja", _("Japanese"))]
LOCALE_PATHS = [BASE_DIR / "memories" / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

# Only one page accepts files.

FILE_UPLOAD_HANDLERS = [
    "memoryhub.uploads.OperatorsExport",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]

# Static files: `serve` collects them into var/. With DEBUG the finders serve them.

STATIC_URL = "static/"
STATIC_ROOT = MEMORYHUB_VAR / "static"
WHITENOISE_USE_FINDERS = DEBUG
WHITENOISE_KEEP_ONLY_HASHED_FILES = True  # pages link to no others, and to compress them takes time
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}

# Slack

SLACK_BOT_TOKEN = env.str("SLACK_BOT_TOKEN", default="")
SLACK_BASE_URL = env.str("SLACK_BASE_URL", default="")
# Events: /slack/events/ needs the signing secret, and `manage.py socket` the app token.
SLACK_SIGNING_SECRET = env.str("SLACK_SIGNING_SECRET", default="")
SLACK_APP_TOKEN = env.str("SLACK_APP_TOKEN", default="")

# Hosts that webhooks may call though they are not public.
MEMORYHUB_WEBHOOK_HOSTS = env.list("MEMORYHUB_WEBHOOK_HOSTS", default=[])

# Health: after this number of seconds without a heartbeat of any worker, /readyz responds 503. A worker
# that hangs is replaced after one and a half heartbeats, which takes less time.
MEMORYHUB_HEARTBEAT_MAX = env.float("MEMORYHUB_HEARTBEAT_MAX", default=5 * MEMORYHUB_HEARTBEAT)

# The key for /metrics. Without it there are no metrics.
MEMORYHUB_METRICS_KEY = env.str("MEMORYHUB_METRICS_KEY", default="")
# The collector of traces, either one. OpenTelemetry itself reads its other variables.
OTEL_EXPORTER_OTLP_ENDPOINT = env.str("OTEL_EXPORTER_OTLP_ENDPOINT", default="")
OTEL_EXPORTER_OTLP_TRACES_ENDPOINT = env.str("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", default="")

# Logs

MEMORYHUB_LOG_FORMAT = env.choice(
    "MEMORYHUB_LOG_FORMAT",
    default="plain" if sys.stderr.isatty() else "json",
    choices=("plain", "json"),
)
MEMORYHUB_LOG_LEVEL = env.choice(
    "MEMORYHUB_LOG_LEVEL",
    default="INFO",
    choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"),
)

LOGGING = logging_config(MEMORYHUB_LOG_FORMAT, MEMORYHUB_LOG_LEVEL)
