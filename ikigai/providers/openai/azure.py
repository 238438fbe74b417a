"""Connect to Azure OpenAI through the SDK's own class, by key or by the credentials of Entra ID.

Azure has two forms of its address. The older has a path for each deployment, and a dated version of the API in the
query; the newer, /openai/v1, takes the deployment as the model.
"""

import asyncio
import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any
from urllib.parse import quote

from ikigai.core.errors import ConfigError
from ikigai.core.vendors import CLOUDS
from ikigai.providers import clouds
from ikigai.providers.models.models import ListedModel
from ikigai.providers.openai.provider import OpenAIProvider

ENDPOINT_VARIABLE, VERSION_VARIABLE, TOKEN_VARIABLE = (
    "AZURE_OPENAI_ENDPOINT",
    "OPENAI_API_VERSION",
    "AZURE_OPENAI_AD_TOKEN",
)
VERSION_PARAMETER = "api-version"
NEWER_VERSION = "v1"
"""The version of the newer address, where none is demanded."""
TOKEN_SCOPE = "https://cognitiveservices.azure.com/.default"
"""The scope of Entra ID's tokens for Azure OpenAI."""
KNOWN_PATH = re.compile(r"/openai(/v1|/deployments/.*)?/*$")
"""Matches what the portal shows behind the host: nothing, /openai/v1, or the path of a deployment."""


class AzureProvider(OpenAIProvider):
    """A resource of Azure OpenAI (`StreamingProvider`); a model is named by its deployment."""

    OWN_ADDRESS = ""
    SIGN_IN = CLOUDS["azure"].sign_in

    def __init__(self, name: str, base_url: str = "", *arguments: Any, **more: Any) -> None:
        address = base_url or os.environ.get(ENDPOINT_VARIABLE, "").strip()
        if not address:
            raise ConfigError(
                f"There is no address for {name}.",
                f"Set {ENDPOINT_VARIABLE}, or base_url under [providers.{name}]: https://RESOURCE.openai.azure.com",
            )
        super().__init__(name, address, *arguments, **more)
        version = next((value for key, value in self._query if key == VERSION_PARAMETER), "")
        self._query = [(key, value) for key, value in self._query if key != VERSION_PARAMETER]
        self._version = version or os.environ.get(VERSION_VARIABLE, "").strip()
        found = KNOWN_PATH.search(self.base_url)
        root = self.base_url[: found.start()] if found else self.base_url.rstrip("/")
        self._is_newer = (found and found[1] == "/v1") or not self._version
        self.base_url = f"{root}/openai{'/v1' if self._is_newer else ''}"
        self._official = True

    def sdk_client(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        import openai

        return openai.AsyncAzureOpenAI, {"api_version": self._version or NEWER_VERSION, **self._credentials()}

    def _credentials(self) -> dict[str, Any]:
        """Return the SDK's argument for the key, the token of the environment, or Entra ID's tokens."""
        if self.key:
            return {"api_key": self.key}
        if token := os.environ.get(TOKEN_VARIABLE, "").strip():
            return {"azure_ad_token": token}
        clouds.require_package(CLOUDS["azure"])
        identity = import_module("azure.identity")
        read_token = identity.get_bearer_token_provider(identity.DefaultAzureCredential(), TOKEN_SCOPE)

        async def token_provider() -> str:  # it keeps a token until it expires; a new one may take seconds
            return await asyncio.to_thread(read_token)

        return {"azure_ad_token_provider": token_provider}

    def path(self, model: str) -> str:
        path = super().path(model)
        return path if self._is_newer or self._responses else f"/deployments/{quote(model, safe='')}{path}"

    async def models(self) -> list[ListedModel]:
        """Return no model once the server has answered: it lists what could be deployed, and no deployments."""
        await super().models()
        return []
