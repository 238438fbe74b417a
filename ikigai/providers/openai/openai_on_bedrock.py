"""Connect to the models on Amazon Bedrock that speak OpenAI's formats, through the SDK's own class."""

import os
from collections.abc import Callable
from typing import Any

from ikigai.core.vendors import CLOUDS
from ikigai.providers import clouds
from ikigai.providers.openai.provider import OpenAIProvider


class BedrockOpenAIProvider(OpenAIProvider):
    """Models of Amazon Bedrock other than Claude (`StreamingProvider`); `region` "" takes the region of the
    environment.
    """

    OWN_ADDRESS = "https://bedrock-mantle.us-east-1.api.aws/openai/v1"
    SIGN_IN = CLOUDS["bedrock"].sign_in

    def sdk_client(self) -> tuple[Callable[..., Any], dict[str, Any]]:
        import openai

        session = clouds.aws_session(self._region, with_credentials=not self.key)
        if not self._has_address:
            self.move_to(f"https://bedrock-mantle.{session.region_name}.api.aws/openai/v1")
        credentials = {"api_key": self.key} if self.key else {"aws_profile": os.environ.get("AWS_PROFILE")}
        return openai.AsyncBedrockOpenAI, {"aws_region": session.region_name, **credentials}
