"""Programs that ikigai starts get no keys."""

import pytest

from ikigai.core.secrets import without_secrets


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GOOGLE_API_KEY", "PGPASSWORD", "DATABASE_URL", "IKIGAI_DATABASE_URL",
     "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "my_password", "SENTRY_DSN", "APIKEY"],
)  # fmt: skip
def test_keys_are_left_out(name: str) -> None:
    assert without_secrets({name: "s", "HOME": "/h"}) == {"HOME": "/h"}


@pytest.mark.parametrize("name", ["PATH", "TERM", "SSH_AUTH_SOCK", "XAUTHORITY", "KEYBOARD", "LESS", "AUTHOR"])
def test_the_rest_stays(name: str) -> None:
    assert without_secrets({name: "x"}) == {name: "x"}
