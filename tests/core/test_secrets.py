"""Programs that ikigai starts get no keys."""

import pytest

from ikigai.core.secrets import without_secrets

SECRET = [
    "OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY", "PGPASSWORD", "DATABASE_URL", "IKIGAI_DATABASE_URL",
    "MYSQL_PWD", "GITHUB_PAT", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "my_password", "SENTRY_DSN", "APIKEY",
    "SMTP_PASS", "GPG_PASSPHRASE", "GOOGLE_CREDENTIALS", "PASSWORDS", "TOKENS", "SECRETS", "ENCRYPTION_KEYS",
    "MY_APIKEYS", "ACCESSTOKEN", "AccessKey", "OPENAIKEY", "BEARER", "COOKIE", "AUTHORIZATION", "JWT", "CREDS",
    "STRIPE_SK", "SSH_PRIVATE", "SLACK_WEBHOOK_URL", "DBPASSWORD", "CLIENTSECRET", "APIKEY2", "TOKEN_1", "accessTokens",
    "SESSION_COOKIE", "PROXY_AUTHORIZATION", "USER_CREDS", "JWT_SECRET", "KEY", "SECRETKEY_BASE", "SIGNINGKEY_FILE",
    "DISCORD_WEBHOOK", "KEYS", "REFRESHTOKEN_OLD", "MONKEYPATCH_KEY", "__TOKEN",
]  # fmt: skip
ORDINARY = [
    "PATH", "TERM", "SSH_AUTH_SOCK", "XAUTHORITY", "KEYBOARD", "LESS", "AUTHOR", "GIT_AUTHOR_NAME", "PWD", "OLDPWD",
    "KEYMAP", "XKB_KEYMAP", "MONKEY", "SPIDERMONKEY_HOME", "GREASEMONKEY", "TURKEY", "HOTKEYS", "MY_HOTKEY",
    "HOCKEY_DIR", "WHISKEY", "TOKENIZERS_PARALLELISM", "TOKENIZER_PATH", "PASSENGER", "PASSENGER_APP_ENV",
    "PASSTHROUGH", "COMPASS", "BYPASS", "SECRETARY", "KEYWORDS", "KEYRING_BACKEND", "GNOME_KEYRING_CONTROL", "AUTHORS",
    "COOKIECUTTER_CONFIG", "COOKIE_DOMAIN", "SESSION_COOKIE_NAME", "JWT_ALGORITHM", "GOPRIVATE", "PRIVATE_REGISTRY",
    "SK", "DISK_SIZE", "TASK", "RISK", "MAX_TOKENS", "MAX_OUTPUT_TOKENS", "LLM_MAX_INPUT_TOKENS", "NUM_TOKENS", "PATCH",
    "PATTERN", "CREDITS", "WEBHOOK_PORT", "PASSWORDLESS", "BEARERS_DIR",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_variable_with_a_secret_is_left_out(name: str) -> None:
    assert without_secrets({name: "s", "HOME": "/h"}) == {"HOME": "/h"}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_variable_stays(name: str) -> None:
    assert without_secrets({name: "x"}) == {name: "x"}
