"""Connect to Claude on Google Vertex AI through the SDK's own class and Google's default credentials."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from ikigai.core.errors import IkigaiError
from ikigai.core.vendors import CLOUDS
from ikigai.providers import clouds
from ikigai.providers.anthropic.cloud_messages import VertexMessagesEncoder
from ikigai.providers.anthropic.provider import AnthropicProvider


class ClaudeVertexProvider(AnthropicProvider):
    """Claude on Vertex AI (`StreamingProvider`) in this `region` and `project`; "" is the project of the
    credentials.
    """

    OWN_ADDRESS = "https://aiplatform.googleapis.com/v1"
    SIGN_IN = CLOUDS["vertex"].sign_in
    encoder_class = VertexMessagesEncoder

    def sdk_client(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        import anthropic  # noqa: F401  (the way into its modules, for all threads)
        from anthropic.lib.vertex import AsyncAnthropicVertex

        if self.key:
            raise IkigaiError(
                f"Claude on {self.name} takes no API key.",
                f"Run: ikigai login {self.name} --remove, and {self.SIGN_IN}",
            )
        arguments: dict[str, Any] = {"project_id": self._project} if self._project else {}
        if self._has_address:
            arguments["base_url"] = self.base_url
        return AsyncAnthropicVertex, {"region": self._region, **arguments}

    def connect(self) -> tuple[Any, Any]:
        client, http = super().connect()
        self.move_to(str(client.base_url).rstrip("/"))
        return client, http

    async def _send(self, client: Any, model: str, body: bytes, beta: str) -> Any:
        path = f"{await self._place(client)}/{quote(model, safe='@')}:streamRawPredict"
        return await self.post_bytes(client, path, body, beta)

    async def _place(self, client: Any) -> str:
        """Return the path of Claude's models in the project, which may be known from the credentials alone."""
        try:
            await client._ensure_access_token()
        except ValueError:  # credentials without a project
            raise clouds.missing_google_project(self.name) from None
        project, region = quote(client.project_id, safe=""), quote(self._region, safe="")
        return f"/projects/{project}/locations/{region}/publishers/anthropic/models"

    async def count_path(self, client: Any) -> str:
        return f"{await self._place(client)}/count-tokens:rawPredict"
