"""The one table of vendors: its names fit the settings, the providers and the prices that stand elsewhere."""

from typing import get_args

import pytest
from genai_prices.data import providers

from ikigai.config.value_types import Api
from ikigai.core.commands.arguments import parse_model
from ikigai.core.errors import Rejected, WrongArgument
from ikigai.core.vendors import CLOUDS, VENDORS
from ikigai.providers.models import bundled_models


def test_apis_are_the_allowed_values_of_the_setting():
    literal, _ = get_args(Api)
    assert {"", *(api for vendor in VENDORS.values() for api in vendor.apis), *CLOUDS} == {*get_args(literal)}


@pytest.mark.parametrize("name", VENDORS)
def test_vendor_has_prices_and_known_models(name: str):
    vendor = VENDORS[name]
    assert name in {provider.id for provider in providers}
    assert vendor.default_model in bundled_models.load().names[name]
    assert vendor.default_model.startswith(vendor.model_prefixes)


@pytest.mark.parametrize("name", VENDORS)
def test_bare_model_name_is_told_its_vendor(name: str):
    for prefix in VENDORS[name].model_prefixes:
        with pytest.raises(Rejected, match=f"Did you mean {name}/{prefix}x?"):
            parse_model(f"{prefix}x")


@pytest.mark.parametrize("provider", ["anthropic", "groq", "azure"])
def test_provider_alone_is_said_to_be_no_model(provider: str):
    with pytest.raises(WrongArgument, match=f"'{provider}' is a provider, not a model") as raised:
        parse_model(provider)
    assert f"Write {provider}/NAME." in raised.value.remedy
