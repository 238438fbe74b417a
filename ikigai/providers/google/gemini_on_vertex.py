"""Connect to Gemini on Google Vertex AI through the official SDK and Google's default credentials."""

from typing import Any
from urllib.parse import quote

from ikigai.core.request.build import Request
from ikigai.core.vendors import CLOUDS
from ikigai.providers import clouds
from ikigai.providers.google.provider import API_VERSION, GoogleProvider
from ikigai.providers.http.json_shape import as_mapping, as_sequence, as_string
from ikigai.providers.models.models import ListedModel
from ikigai.providers.open_stream import NoStream

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
PUBLISHERS = ("google", "anthropic")
"""The publishers whose models `ikigai models` lists."""


class GeminiVertexProvider(GoogleProvider):
    """Gemini on Vertex AI (`StreamingProvider`) in this `region` and `project`; "" is the project of the credentials.

    With a key it is Vertex's express mode, which knows neither.
    """

    OWN_ADDRESS = "https://aiplatform.googleapis.com"
    SIGN_IN = CLOUDS["vertex"].sign_in
    shows_searches = False

    def sdk_arguments(self) -> dict[str, Any]:
        if self.key:
            return {"vertexai": True, "api_key": self.key}
        import google.auth

        credentials, project = google.auth.default(scopes=[SCOPE])
        if not (self._project or project):
            raise clouds.missing_google_project(self.name)
        project = self._project or project
        return {"vertexai": True, "credentials": credentials, "project": project, "location": self._region}

    def sdk_address(self) -> dict[str, Any]:
        version = API_VERSION.search(self.base_url)
        address = {"base_url": API_VERSION.sub("", self.base_url)} if self._has_address else {}
        return {"api_version": version[1] if version else "v1beta1", **address}

    def connect(self) -> tuple[Any, Any]:
        client, http = super().connect()
        if not self._has_address:
            self.move_to(client.address.rstrip("/"))
        return client, http

    def path(self, model: str) -> str:
        return quote(model if "/" in model else f"publishers/google/models/{model}", errors="surrogatepass")

    def counting_body(self, request: Request) -> bytes:
        return self.encoder(request.model).countable(request)

    async def models(self) -> list[ListedModel]:
        """Return the models of Google and Anthropic. Raise IkigaiError on failure."""
        try:
            client, found = await self.connected(), list[ListedModel]()
            for publisher in PUBLISHERS:
                page = await client.read("get", f"publishers/{publisher}/models?pageSize=200")
                if not isinstance(page, dict) or "error" in page:
                    raise NoStream(page)
                names = (as_string(as_mapping(one).get("name")) for one in as_sequence(page.get("publisherModels")))
                found += [
                    ListedModel(name.rpartition("/")[2]) for name in names if "gemini" in name or "claude" in name
                ]
            return found
        except Exception as error:
            raise self.listing_error(error, self._idle) from None
