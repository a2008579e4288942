"""Every setting, read from the environment here and nowhere else.

A bad value stops the start with one line that names the variable. docs/production.md lists them all;
a test fails for one that is missing there.
"""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Callable
from datetime import time
from email.utils import parseaddr
from ipaddress import IPv4Network, IPv6Network, ip_network
from math import inf
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import ZoneInfo

import dj_database_url
from celery.schedules import crontab
from csp.constants import NONE, SELF
from django.utils.translation import gettext_lazy as _
from kombu import Exchange, Queue

from annotation.core.errors import AssayError
from annotation.core.log_lines import FORMAT, mask_secrets
from annotation.core.mail_server import parse_mail_url
from annotation.core.startup import SettingsError
from annotation.domain.mail.mail import check_address
from annotation.domain.permissions import ROLES
from annotation.domain.sign_in.providers import AnyProvider, parse_providers

BASE_DIR = Path(__file__).resolve().parent.parent
T = TypeVar("T")
SECRET_MIN_LENGTH = 16


def env(name: str, default: str, read: Callable[[str], T], *, is_secret: bool = False) -> T:
    """The environment variable ``name`` read with ``read``; a bad value names itself and stops the start. One that
    ``is_secret`` is not shown.
    """
    text = os.environ.get(name, "").strip() or default
    try:
        return read(text)
    except (ValueError, KeyError, OSError) as error:
        value = "" if is_secret else f"={mask_secrets(text)!r}"
        raise SettingsError(f"{name}{value}: {error}") from error


def read_bool(text: str) -> bool:
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    if text.lower() not in words:
        raise ValueError("say true or false")
    return words[text.lower()]


def read_list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def read_positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise ValueError("say a whole number above 0")
    return int(text)


def read_count(text: str) -> int:
    if not text.isdigit():
        raise ValueError("say a whole number, 0 or more")
    return int(text)


def read_seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < inf:
        raise ValueError("say a number of seconds above 0, such as 0.5")
    return seconds


def read_secret(text: str) -> str:
    if 0 < len(text) < SECRET_MIN_LENGTH:
        raise ValueError(f"it needs {SECRET_MIN_LENGTH} characters at least, drawn at random")
    return text


def read_dsn(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme not in {"http", "https"} or not parts.username or not parts.hostname):
        raise ValueError("write it as Sentry shows it: https://KEY@HOST/PROJECT")
    return text


def read_collector(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme not in {"http", "https"} or not parts.hostname):
        raise ValueError("write the address at which a collector takes OTLP over HTTP: http://HOST:4318")
    return text.rstrip("/")


def read_time(text: str) -> time:
    try:
        return time.fromisoformat(text)
    except ValueError as error:
        raise ValueError("say an hour and a minute, as in 03:30") from error


def read_site_url(text: str) -> str:
    parts = urlsplit(text)
    if not text:
        return ""
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("write the address under which people open Assay: https://assay.example.org")
    if parts.username or parts.password:
        raise ValueError("an address has no user or password in it")
    return text.rstrip("/")


def read_mail_from(text: str) -> tuple[str, str]:
    """``NAME <ADDRESS>`` or an address alone: the name, which may be empty, and the address."""
    if not text:
        return "", ""
    name, address = parseaddr(text)
    try:
        return " ".join(name.split()), check_address(address)
    except AssayError as error:
        raise ValueError("write an address, or a name and an address: Assay <assay@example.org>") from error


def is_allowed_host(host: str, allowed: list[str]) -> bool:
    names = {name.lower().strip("[]") for name in allowed}
    return host in names or any(
        name.startswith(".") and (host == name[1:] or host.endswith(name)) for name in names
    )


def read_choice(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"say one of {', '.join(choices)}")
        return text

    return read


def read_time_zone(text: str) -> str:
    return str(ZoneInfo(text))


def make_folder(text: str) -> Path:
    path = Path(text).expanduser().resolve()
    if path.exists() and not path.is_dir():
        raise ValueError("this is a file; name a folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"it cannot be made ({error.strerror}); name a folder that this user may make"
        ) from error
    return path


def read_data_dir(text: str) -> Path:
    path = make_folder(text)
    if not os.access(path, os.W_OK | os.X_OK):
        raise ValueError("this user may not write there; name another folder, or give this one to the user")
    return path


def read_database(text: str) -> Any:
    schemes = ("sqlite", "postgres", "postgresql")
    if text.split(":", 1)[0] not in schemes:
        raise ValueError("start with sqlite:/// or postgres://")
    database = dj_database_url.parse(text)
    if database["NAME"] in {"", ":memory:"}:  # a database in memory would lose everything in silence
        raise ValueError("name the database: sqlite:///FILE or postgres://HOST/NAME")
    return database


def read_broker(text: str) -> str:
    if text.split("://", 1)[0] not in ("filesystem", "redis", "rediss", "memory"):
        raise ValueError("say filesystem:// or redis://HOST:PORT/N")
    return text


def read_origins(text: str) -> list[str]:
    origins = read_list(text)
    for origin in origins:
        if not origin.startswith(("http://", "https://")):
            raise ValueError(f"write an origin with its scheme: https://{origin}")
    return origins


def read_encoder(text: str) -> str:
    if text and not (Path(text) / "config.json").is_file():
        raise ValueError(f"{text} is no folder with a model: it has no config.json")
    return str(Path(text).resolve()) if text else ""


def read_encoders(text: str) -> dict[str, str]:
    """``NAME=FOLDER,NAME=FOLDER``: the encoders that pages offer."""
    encoders: dict[str, str] = {}
    for part in read_list(text):
        name, _equals, folder = (word.strip() for word in part.partition("="))
        if not name or not folder:
            raise ValueError(f"write NAME=FOLDER, as in little=/srv/models/little, and not {part}")
        if name in encoders:
            raise ValueError(f"{name} is there twice")
        encoders[name] = read_encoder(folder)
    return encoders


def read_launch(text: str) -> str:
    if not shlex.split(text):
        raise ValueError("say python, a command such as accelerate launch, or here")
    return "" if text.strip() == "here" else text


def read_endpoints(text: str) -> dict[str, str]:
    """``NAME=URL,NAME=URL``: what pages may ask for responses and judgements."""
    endpoints: dict[str, str] = {}
    for part in read_list(text):
        name, _is, url = part.partition("=")
        parts = urlsplit(url.strip())
        if not name.strip() or parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"write NAME=URL, as in local=http://127.0.0.1:8000/v1, and not {part}")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError(f"{name.strip()}: an address has no key, user or password in it")
        endpoints[name.strip()] = url.strip().rstrip("/")
    return endpoints


def read_networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks in CIDR, with commas; a single address is a network of one."""
    try:
        return tuple(ip_network(part) for part in read_list(text))
    except ValueError as error:
        raise ValueError(f"write networks with commas, as in 10.1.0.0/16,fd00::/8 ({error})") from error


def read_sign_in(text: str) -> tuple[AnyProvider, ...]:
    """A file with the identity providers; their secrets are there, too, or the start stops here."""
    if not text:
        return ()
    providers = parse_providers(Path(text).read_text(encoding="utf-8"))
    for provider in providers:
        variable = getattr(provider, "client_secret_env", "")
        if variable and not os.environ.get(variable):
            raise ValueError(f"{provider.name}: the variable {variable} of its secret is empty")
        file = getattr(provider, "client_secret_file", "")
        if file and not os.access(file, os.R_OK):
            raise ValueError(f"{provider.name}: the file {file} of its secret cannot be read")
    return providers


def read_factor_roles(text: str) -> tuple[str, ...]:
    known = ("admin", *ROLES)
    unknown = [role for role in read_list(text) if role not in known]
    if unknown:
        raise ValueError(f"there is no role {unknown[0]}; say some of {', '.join(known)}")
    return tuple(read_list(text))


def read_storage(text: str) -> dict[str, Any] | None:
    """``s3://BUCKET/PREFIX?endpoint=URL&region=NAME``: the options of django-storages; None for the data folder."""
    if not text:
        return None
    parts = urlsplit(text)
    if parts.scheme != "s3" or not parts.netloc:
        raise ValueError(
            "write s3://BUCKET/PREFIX?endpoint=URL&region=NAME; the prefix and what follows may be left out"
        )
    if parts.username or parts.password or parts.fragment or parts.port:
        raise ValueError("a key has no place in it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else ())
    if unknown := sorted(set(options) - {"endpoint", "region"}):
        raise ValueError(f"{unknown[0]} is no option; there are endpoint and region")
    endpoint = options.get("endpoint") or None
    if endpoint is not None:
        address = urlsplit(endpoint)
        if address.scheme not in {"http", "https"} or not address.hostname or address.username:
            raise ValueError("the endpoint is an address such as https://s3.example.org, without a key in it")
    prefix = parts.path.strip("/")
    if ".." in prefix.split("/"):
        raise ValueError("the prefix has no .. in it")
    return {
        "bucket_name": parts.netloc,
        "location": prefix,
        "endpoint_url": endpoint,
        "region_name": options.get("region") or None,
    }


LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}

DEBUG = env("DEBUG", "false", read_bool)
ASSAY_DATA_DIR = env("ASSAY_DATA_DIR", str(BASE_DIR / "var"), read_data_dir)
# A bucket for uploads, exports and scorers, which several hosts share; without it they lie in the data folder.
ASSAY_STORAGE = env("ASSAY_STORAGE", "", read_storage)
# What a host keeps of the bucket, in its own data folder.
STORAGE_CACHE_BYTES = env("ASSAY_STORAGE_CACHE_MEGABYTES", "20480", read_positive) * 1024 * 1024
# A folder with a pretrained encoder, for scorers that are trained without naming another.
ASSAY_ENCODER = env("ASSAY_ENCODER", "", read_encoder)
# The encoders that pages offer by name; commands may say any folder.
ASSAY_ENCODERS = env("ASSAY_ENCODERS", "", read_encoders)
# The command by which an encoder is fine-tuned, in a process of its own; "here" is the worker's own process.
ASSAY_LAUNCH = env("ASSAY_LAUNCH", "python", read_launch)
# The study that commands work in where there are several.
ASSAY_STUDY = env("ASSAY_STUDY", "", str)
# The OpenAI-compatible endpoints that pages offer; commands may name others.
ASSAY_ENDPOINTS = env("ASSAY_ENDPOINTS", "", read_endpoints)
# Where webhooks may go beside the public internet, and whether without HTTPS.
WEBHOOK_NETWORKS = env("ASSAY_WEBHOOK_NETWORKS", "", read_networks)
WEBHOOK_HTTP = env("ASSAY_WEBHOOK_HTTP", "false", read_bool)
ALLOWED_HOSTS = env("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]", read_list)
CSRF_TRUSTED_ORIGINS = env("CSRF_TRUSTED_ORIGINS", "", read_origins)
# Set by the `demo` command for the processes that it starts, and by nobody else.
ASSAY_DEMO_PROCESS = env("ASSAY_DEMO_PROCESS", "false", read_bool)
HTTPS = env("ASSAY_HTTPS", "false", read_bool)

IS_PUBLIC = not set(ALLOWED_HOSTS) <= LOOPBACK
if "*" in ALLOWED_HOSTS:
    raise SettingsError(
        "ALLOWED_HOSTS=*: name the hosts; else a link in a page can be made to lead to any other."
    )
if ASSAY_DEMO_PROCESS and IS_PUBLIC:
    raise SettingsError("ASSAY_DEMO_PROCESS: the demo serves loopback only, and ALLOWED_HOSTS names more.")
if DEBUG and IS_PUBLIC:
    raise SettingsError(
        "DEBUG=true: its pages show settings and data to everybody, and ALLOWED_HOSTS names more than loopback."
    )
SECRET_KEY_MIN_LENGTH = 32


def secret_key() -> str:
    """``SECRET_KEY``; on loopback alone one is made and kept in the data folder."""
    from_environment = os.environ.get("SECRET_KEY", "")
    if 0 < len(from_environment) < SECRET_KEY_MIN_LENGTH:
        raise SettingsError(
            f"SECRET_KEY has {len(from_environment)} characters: it needs {SECRET_KEY_MIN_LENGTH} at least, drawn at"
            " random, because sessions are signed with it."
        )
    if from_environment:
        return from_environment
    if IS_PUBLIC:
        raise SettingsError("SECRET_KEY is empty: set it, because ALLOWED_HOSTS names more than loopback.")
    path = ASSAY_DATA_DIR / "secret_key"
    try:
        with open(path, "x", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
            file.write(secrets.token_urlsafe(50))
    except FileExistsError:
        pass
    try:
        return path.read_text()
    except OSError as error:
        raise SettingsError(
            f"SECRET_KEY: {path} cannot be read ({error.strerror}); give it to the user that runs Assay."
        ) from error


SECRET_KEY = secret_key()

# Where mail is handed over, from whom it comes, and the address with which its links begin. Without the first no mail
# is sent; Django's own functions send none in any case.
MAIL_SERVER = env("EMAIL_URL", "", parse_mail_url, is_secret=True)
MAIL_FROM = env("ASSAY_MAIL_FROM", "", read_mail_from)
SITE_URL = env("ASSAY_SITE_URL", "", read_site_url)
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
if MAIL_SERVER is not None and not MAIL_FROM[1]:
    raise SettingsError("ASSAY_MAIL_FROM is empty: EMAIL_URL is set, so say from which address mail comes.")
if MAIL_SERVER is not None and not SITE_URL:
    raise SettingsError("ASSAY_SITE_URL is empty: EMAIL_URL is set, so say with which address links begin.")
if SITE_URL and not is_allowed_host(urlsplit(SITE_URL).hostname or "", ALLOWED_HOSTS):
    raise SettingsError(
        f"ASSAY_SITE_URL={SITE_URL!r}: ALLOWED_HOSTS does not name its host, so its links would lead to errors."
    )
# A batch is announced so many days before it is due; 0 is never.
DUE_DAYS = env("ASSAY_DUE_DAYS", "3", read_count)
# When due dates and digests are sent, and for how many days rows of mails are kept that are over.
REMIND_AT = env("ASSAY_REMIND_AT", "08:00", read_time)
MAIL_DAYS = env("ASSAY_MAIL_DAYS", "30", read_positive)

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.socialaccount.providers.saml",
    "annotation",
    "scoring",
    "benchmark",
]

MIDDLEWARE = [
    "config.operations.requests.RequestMiddleware",
    "config.middleware.StudyPrefixMiddleware",
    "config.limits.BodyLimit",
    "django.middleware.security.SecurityMiddleware",
    "config.middleware.PermissionsPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "config.middleware.NoStoreMiddleware",
    "config.middleware.MovedAddressMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "config.middleware.IdleSessionMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "config.operations.sign_in.SignInMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "config.middleware.ApplicationErrorMiddleware",
    "config.middleware.StudyScopeMiddleware",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
ASGI_APPLICATION = "config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "config.navigation.navigation",
            ],
            "builtins": ["annotation.templatetags.components", "annotation.templatetags.formatting"],
        },
    }
]

DATABASES = {"default": env("DATABASE_URL", f"sqlite:///{ASSAY_DATA_DIR / 'assay.sqlite3'}", read_database)}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        # IMMEDIATE takes the write lock at BEGIN, so that two writers queue instead of failing at the first write.
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-65536;",
    }
else:
    DATABASES["default"]["CONN_MAX_AGE"] = env("CONN_MAX_AGE", "600", read_positive)
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    # A server that does not answer is away: nobody waits longer than this for a connection.
    DATABASES["default"].setdefault("OPTIONS", {}).setdefault("connect_timeout", 5)
    # Behind a pooler that hands connections round between transactions; nothing is prepared then, either.
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = env(
        "DISABLE_SERVER_SIDE_CURSORS", "false", read_bool
    )
# What was said of a pooler; a process that finds one changes the other.
IS_POOLED = DATABASES["default"].get("DISABLE_SERVER_SIDE_CURSORS", False)
# A statement that takes longer is one line of the log, without its parameters.
SLOW_QUERY_SECONDS = env("ASSAY_SLOW_QUERY_SECONDS", "1", read_seconds)
# How gunicorn serves (config/gunicorn.py): processes and threads; seconds without a request's next bytes, after which
# its connection is closed, and the bytes a second that keep one open; seconds in which nothing of an answer is taken
# (config/worker.py).
WEB_WORKERS = env("ASSAY_WEB_WORKERS", "2", read_positive)
WEB_THREADS = env("ASSAY_WEB_THREADS", "8", read_positive)
READ_SECONDS = env("ASSAY_READ_SECONDS", "8", read_positive)
READ_RATE = env("ASSAY_READ_RATE", "1024", read_positive)
SEND_SECONDS = env("ASSAY_SEND_SECONDS", "30", read_positive)
# After so many seconds PostgreSQL ends a statement of a page or of the API; jobs and commands take the time they need.
STATEMENT_SECONDS = env("ASSAY_STATEMENT_SECONDS", "30", read_positive)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "annotation.Person"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "annotation.core.passwords.NameValidator"},
    {"NAME": "annotation.core.passwords.LengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]

# Shared by every process that serves: sign-ins are counted here. Its table is a model's (annotation.CacheEntry).
# What one process alone remembers of what never changes needs no table.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "annotation_cacheentry",
        "OPTIONS": {"MAX_ENTRIES": 20_000},
    },
    # Pictures and what they are drawn from, where hosts share a bucket and no folder (annotation.ChartEntry).
    "charts": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "annotation_chartentry",
        "OPTIONS": {"MAX_ENTRIES": 50_000},
    },
    "process": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "process"},
    # Django's {% cache %} looks for this name: the work page must not read its fragments from the database.
    "template_fragments": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "LOCATION": "template_fragments",
    },
}
ACCOUNT_ADAPTER = "annotation.services.people.sign_ins.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SESSION_REMEMBER = True
# A key is an account at an address, or an account. Windows are short: nobody is shut out for longer than five minutes
# after the last guess. The last three bound what guessing writes into the audit trail, and what programs may try.
ACCOUNT_RATE_LIMITS = {
    "login": "120/m/ip",
    "login_failed": "30/5m/ip,5/5m/key",
    "login_failed_account": "50/5m/key",
    "present_password": "5/5m/key",
    "login_throttled_event": "1/5m/ip",
    "second_factor": "5/5m/key",
    "provider_refused_event": "5/5m/ip",
    "token_refused": "20/5m/ip",
    "token_refused_event": "1/5m/ip",
    # Of mail: what strangers ask for, by address of the client and of the mail; what people and managers have sent.
    "password_reset": "20/5m/ip",
    "password_reset_address": "3/h/key",
    "mail_address": "5/h/key",
    "mail_invitation": "200/d/key",
}
# Signing in for a company (docs/sign-in.md): a file with the identity providers, the roles that demand a second factor,
# and whether people may still sign in by a password of this site.
SIGN_IN_PROVIDERS = env("ASSAY_SIGN_IN", "", read_sign_in)
SECOND_FACTOR_ROLES = env("ASSAY_SECOND_FACTOR", "", read_factor_roles)
LOCAL_PASSWORDS = env("ASSAY_LOCAL_PASSWORDS", "true", read_bool)
if not LOCAL_PASSWORDS and not SIGN_IN_PROVIDERS:
    raise SettingsError(
        "ASSAY_LOCAL_PASSWORDS=false: nobody could sign in; name an identity provider with ASSAY_SIGN_IN first."
    )
MFA_ADAPTER = "annotation.services.people.second_factor.FactorAdapter"
MFA_SUPPORTED_TYPES = ["recovery_codes", "totp", "webauthn"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_PERIOD = 30
MFA_WEBAUTHN_USER_VERIFICATION = "required"
# Browsers offer passkeys over HTTPS, and to localhost without.
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not HTTPS and not IS_PUBLIC
SOCIALACCOUNT_ADAPTER = "annotation.services.people.providers.ProviderAdapter"
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_REQUESTS_TIMEOUT = 5
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False
SOCIALACCOUNT_QUERY_EMAIL = False
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {"provider_class": "annotation.services.people.provider_kinds.OidcSignIn"},
    "saml": {"provider_class": "annotation.services.people.provider_kinds.SamlSignIn"},
}
# How many proxies of ours stand before the server: the client's address is what the outermost of them saw.
TRUSTED_PROXIES = env("ASSAY_TRUSTED_PROXIES", "0", read_count)

LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LANGUAGE_CODE = env("ASSAY_LANGUAGE", "en", read_choice("en", "zh-hans"))
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = "config.formats"
USE_I18N = True
USE_TZ = True
TIME_ZONE = env("TIME_ZONE", "UTC", read_time_zone)

STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "config.static.StylesheetFinder",
]
# Made, because whitenoise warns of a folder that is not there.
STATIC_ROOT = env("ASSAY_STATIC_ROOT", str(BASE_DIR / "staticfiles"), make_folder)
# Served straight from static/ where nobody ran collectstatic (a laptop); hashed and compressed where somebody did.
COLLECTED = (STATIC_ROOT / "staticfiles.json").exists() or sys.argv[1:2] == ["collectstatic"]
WHITENOISE_USE_FINDERS = not COLLECTED
STORAGES = {
    "default": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"file_permissions_mode": 0o600, "directory_permissions_mode": 0o700},
    },
    "staticfiles": {
        "BACKEND": "config.static.CollectedFiles"
        if COLLECTED
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
if ASSAY_STORAGE is not None:
    STORAGES["bucket"] = {
        "BACKEND": "annotation.core.storage.backend.BucketStorage",
        "OPTIONS": ASSAY_STORAGE,
    }
MEDIA_ROOT = ASSAY_DATA_DIR / "uploads"
# The largest body of a request, but for the views that say otherwise (config/limits.py), and the largest import.
DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * 1024 * 1024
MAX_UPLOAD_BYTES = env("ASSAY_UPLOAD_MEGABYTES", "1024", read_positive) * 1024 * 1024

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# After so long without use a session ends (config.middleware.IdleSessionMiddleware).
SESSION_COOKIE_AGE = 3600 * env("ASSAY_SESSION_IDLE_HOURS", "12", read_positive)
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
if HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
CONTENT_SECURITY_POLICY = {
    "EXCLUDE_URL_PREFIXES": [],
    "DIRECTIVES": {
        "default-src": [SELF],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    },
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "annotation.api.authentication.ApiTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "annotation.api.scopes.InScope",
    ],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "annotation.api.schema.ScopedSchema",
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.LimitOffsetPagination",
    "PAGE_SIZE": 100,
    "EXCEPTION_HANDLER": "config.middleware.api_error",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Assay",
    "DESCRIPTION": "From model responses to gold labels, a scorer and a leaderboard.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PUBLIC": False,  # each person's schema has the calls that they may make
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {
        "BatchStateEnum": "annotation.models.Batch.State",
        "ImportKindEnum": "annotation.models.Import.Kind",
        "JobStateEnum": "annotation.models.Job.State",
        "ScorerStateEnum": "scoring.api.scorers.STATES",
    },
}

BROKER_FOLDER = ASSAY_DATA_DIR / "broker"
CELERY_BROKER_URL = env("CELERY_BROKER_URL", "filesystem://", read_broker)
if CELERY_BROKER_URL.startswith("filesystem"):
    for folder in ("messages", "processed", "control"):
        (BROKER_FOLDER / folder).mkdir(parents=True, exist_ok=True)
    CELERY_BROKER_TRANSPORT = "config.broker:Transport"
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(BROKER_FOLDER / "messages"),
        "data_folder_out": str(BROKER_FOLDER / "messages"),
        "processed_folder": str(BROKER_FOLDER / "processed"),
        "control_folder": str(BROKER_FOLDER / "control"),
        "store_processed": False,
        "polling_interval": 0.2,
    }
else:
    # Whoever queues a job waits no longer than this for each answer, and asks once: the row is the truth, and the sweep
    # sends its message later. A worker has more patience (config/celery.py).
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "socket_timeout": 0.5,
        "socket_connect_timeout": 0.5,
        "max_retries": 0,
    }
# The job row is the truth: no result backend, and a message is only a hint that there is work.
CELERY_TASK_IGNORE_RESULT = True
# A worker takes from all of these but where -Q names some; whoever looks after jobs must not wait for a training.
CELERY_TASK_DEFAULT_QUEUE = "assay"
HOUSEKEEPING_QUEUE, TRAINING_QUEUE = "housekeeping", "train"
CELERY_TASK_QUEUES = [
    Queue(name, Exchange(name, type="direct"), routing_key=name)
    for name in (CELERY_TASK_DEFAULT_QUEUE, HOUSEKEEPING_QUEUE, TRAINING_QUEUE)
]
# The queue of a kind of job; of those that are not here it is the default.
JOB_QUEUES = {
    "train_scorer": TRAINING_QUEUE,
    "send_mail": HOUSEKEEPING_QUEUE,
    "send_webhooks": HOUSEKEEPING_QUEUE,
}
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CONCURRENCY = env("ASSAY_WORKERS", "1", read_positive)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TIMEZONE = TIME_ZONE

# Seconds between heartbeats of a running job, after which silence means that its worker is dead, and tries in all.
JOB_HEARTBEAT_SECONDS = env("ASSAY_JOB_HEARTBEAT_SECONDS", "2", read_positive)
JOB_STALE_SECONDS = env("ASSAY_JOB_STALE_SECONDS", "15", read_positive)
if JOB_STALE_SECONDS <= JOB_HEARTBEAT_SECONDS:
    raise SettingsError(
        f"ASSAY_JOB_STALE_SECONDS={JOB_STALE_SECONDS}: a job that beats every {JOB_HEARTBEAT_SECONDS} s "
        "(ASSAY_JOB_HEARTBEAT_SECONDS) would be taken for dead; say more."
    )
JOB_MAX_ATTEMPTS = env("ASSAY_JOB_MAX_ATTEMPTS", "3", read_positive)
# What the nightly clean-up keeps for how many days, 0 for ever: uploads that nobody confirmed, exports that nobody
# downloads, unfinished work of closed batches, charts, predictions that programs asked for, and what webhooks sent.
UPLOAD_DAYS = env("ASSAY_UPLOAD_DAYS", "30", read_count)
EXPORT_DAYS = env("ASSAY_EXPORT_DAYS", "90", read_count)
DRAFT_DAYS = env("ASSAY_DRAFT_DAYS", "90", read_count)
CHART_DAYS = env("ASSAY_CHART_DAYS", "30", read_count)
IDEMPOTENCY_KEY_DAYS = env("ASSAY_IDEMPOTENCY_KEY_DAYS", "7", read_positive)
PREDICTION_DAYS = env("ASSAY_PREDICTION_DAYS", "30", read_positive)
WEBHOOK_DAYS = env("ASSAY_WEBHOOK_DAYS", "90", read_count)
CLEAN_UP_AT = env("ASSAY_CLEAN_UP_AT", "03:30", read_time)
CELERY_BEAT_SCHEDULE = {
    name: {"task": task, "schedule": schedule, "options": {"expires": expires, "queue": HOUSEKEEPING_QUEUE}}
    for name, task, schedule, expires in (
        ("sweep-jobs", "annotation.sweep_jobs", 5.0, 5),
        ("send-webhooks", "annotation.queue_webhooks", 5.0, 5),
        ("seal-audit", "annotation.seal_audit", 60.0, 60),
        ("watch-batches", "annotation.watch_batches", 30.0, 30),
        (
            "clean-up",
            "annotation.clean_up",
            crontab(hour=CLEAN_UP_AT.hour, minute=CLEAN_UP_AT.minute),
            12 * 3600,
        ),
        *(() if not SIGN_IN_PROVIDERS else (("check-providers", "annotation.check_providers", 300.0, 300),)),
        *(
            ()
            if MAIL_SERVER is None
            else (
                ("send-mail", "annotation.send_mail", 15.0, 15),
                ("post-reminders", "annotation.post_reminders", 600.0, 600),
            )
        ),
    )
}
CELERY_BEAT_SCHEDULE_FILENAME = str(ASSAY_DATA_DIR / "celerybeat-schedule")

# The token with which Prometheus reads /metrics; without one there is no such page, and nothing is measured.
METRICS_TOKEN = env("ASSAY_METRICS_TOKEN", "", read_secret)
# Where errors are sent to beside the log (config/operations/sentry.py).
SENTRY_DSN = env("SENTRY_DSN", "", read_dsn)
# Where traces are sent to (config/operations/tracing.py): the whole address, or the one below which it lies.
# The rest of OpenTelemetry's variables its own library reads.
OTLP_TRACES_URL = env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "", read_collector)
OTLP_URL = env("OTEL_EXPORTER_OTLP_ENDPOINT", "", read_collector)
OTLP_PROTOCOL = env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", read_choice("http/protobuf"))
if OTLP_URL and not OTLP_TRACES_URL:
    OTLP_TRACES_URL = f"{OTLP_URL}/v1/traces"
if env("OTEL_SDK_DISABLED", "false", read_bool):
    OTLP_TRACES_URL = ""
LOG_FORMAT = env("LOG_FORMAT", "line", read_choice("line", "json"))
LOG_LEVEL = env("LOG_LEVEL", "INFO", read_choice("DEBUG", "INFO", "WARNING", "ERROR"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "annotation.core.log_lines.LineFormatter",
            "format": FORMAT,
            "style": "{",
        },
        "json": {"()": "config.operations.logs.JsonFormatter"},
    },
    "filters": {"without_secrets": {"()": "config.operations.logs.SecretsFilter"}},
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["without_secrets"],
        }
    },
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {
        "django.server": {"handlers": ["console"], "level": LOG_LEVEL, "propagate": False},
        "kombu.connection": {"level": "ERROR"},  # warns that a folder has no host name
    },
}
