"""Connect to Claude on Amazon Bedrock through the SDK's own class, which signs the requests."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec

from ikigai.core.request.build import Request
from ikigai.core.vendors import CLOUDS
from ikigai.providers import clouds
from ikigai.providers.anthropic.cloud_messages import BedrockMessagesEncoder
from ikigai.providers.anthropic.provider import AnthropicProvider
from ikigai.providers.http.json_shape import as_mapping, as_sequence, as_string
from ikigai.providers.models.models import ListedModel
from ikigai.providers.open_stream import OpenStream


class BedrockProvider(AnthropicProvider):
    """Claude on Amazon Bedrock (`StreamingProvider`); `region` "" takes the region of the environment or of `aws
    configure`.
    """

    OWN_ADDRESS = "https://bedrock-runtime.us-east-1.amazonaws.com"
    SIGN_IN = CLOUDS["bedrock"].sign_in
    encoder_class = BedrockMessagesEncoder

    def sdk_client(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        import anthropic  # noqa: F401  (the way into its modules, for all threads)
        from anthropic.lib.bedrock import AsyncAnthropicBedrock

        session = clouds.aws_session(self._region, with_credentials=not self.key)
        if not self._has_address:
            self.move_to(f"https://bedrock-runtime.{session.region_name}.amazonaws.com")
        region, key = session.region_name, self.key or None
        return AsyncAnthropicBedrock, {"api_key": key, "aws_region": region, "base_url": self.base_url}

    @asynccontextmanager
    async def post(self, client: Any, request: Request) -> AsyncGenerator[OpenStream, None]:
        async with await self._open_stream(client, request) as stream:
            yield _EventStreamAnswer(stream.response, client._make_sse_decoder())

    async def _send(self, client: Any, model: str, body: bytes, beta: str) -> Any:
        path = f"/model/{quote(model, safe=':;')}/invoke-with-response-stream"
        return await self.post_bytes(client, path, body, "", accept="application/vnd.amazon.eventstream")

    async def count(self, request: Request) -> int | None:
        return None  # the SDK has no way to count there

    async def models(self) -> list[ListedModel]:
        """Return the inference profiles and the models with text that the account can name. Raise IkigaiError on
        failure.
        """
        try:
            return await asyncio.to_thread(self._list)
        except Exception as error:
            raise self.listing_error(error, self._idle) from None

    def _list(self) -> list[ListedModel]:
        session = clouds.aws_session(self._region, with_credentials=not self.key)
        control = session.client("bedrock")
        pages = control.get_paginator("list_inference_profiles").paginate()
        profiles = [one for page in pages for one in as_sequence(page.get("inferenceProfileSummaries"))]
        found = [as_string(as_mapping(one).get("inferenceProfileId")) for one in profiles]
        for one in as_sequence(control.list_foundation_models(byOutputModality="TEXT").get("modelSummaries")):
            model = as_mapping(one)
            if "ON_DEMAND" in as_sequence(model.get("inferenceTypesSupported")):
                found.append(as_string(model.get("modelId")))
        return [ListedModel(id) for id in dict.fromkeys(filter(None, found))]


class _EventStreamAnswer:
    """`OpenStream` over AWS's binary framing, which the SDK decodes."""

    def __init__(self, response: Any, decoder: Any) -> None:
        self.headers: Mapping[str, str] = response.headers
        self._response, self._decoder = response, decoder

    async def chunks(self) -> AsyncGenerator[object, None]:
        async for event in self._decoder.aiter_bytes(self._response.aiter_bytes()):
            yield msgspec.json.decode(event.data)

    def pieces(self) -> AsyncIterator[bytes]:
        return self._response.aiter_bytes()
