"""Requests are priced by genai-prices, computed here a second way, and by the configuration."""

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import genai_prices
import pytest
from genai_prices.data import providers
from msgspec.structs import replace

from ikigai.core.events.messages import Usage
from ikigai.core.vendors import VENDORS
from ikigai.providers.models.bundled_models import load
from ikigai.providers.models.prices import UNPRICED, ModelPrices, PricedUsage, price_request

SOURCE = f"genai-prices {genai_prices.__version__}"
NOVEMBER = datetime(2026, 11, 22, tzinfo=UTC).timestamp()
MILLION = Decimal(1_000_000)

PLAIN = Usage(input=1_000, output=200)
CACHED = Usage(input=20_000, output=500, cached=15_000, thinking=300)
WRITTEN = Usage(input=20_000, output=500, cached=15_000, written=4_000)
LONG = Usage(input=300_000, output=5_000, cached=250_000, written=10_000)


def parts(model: str, usage: Usage, at: float) -> Decimal:
    """The price from the table of genai-prices by its parts, added up here without its own calculation."""
    vendor, _, name = model.partition("/")
    seller = next(one for one in providers if one.id == vendor)
    found = seller.find_model(name, all_providers=providers)
    assert found is not None
    prices = found.get_prices(datetime.fromtimestamp(at, UTC))

    def of(key: str) -> Decimal:
        dollars = getattr(prices, f"{key}_mtok")
        if dollars is None:
            return of("input")
        tiers = getattr(dollars, "tiers", [])
        reached = [tier.price for tier in tiers if usage.input > tier.start]
        return reached[-1] if reached else getattr(dollars, "base", dollars)

    fresh = usage.input - usage.cached - usage.written
    return (
        fresh * of("input")
        + usage.cached * of("cache_read")
        + usage.written * of("cache_write")
        + usage.output * of("output")
    ) / MILLION


@pytest.mark.parametrize(
    "usage", [Usage(), PLAIN, CACHED, WRITTEN, LONG], ids=["none", "plain", "cached", "written", "long"]
)
@pytest.mark.parametrize(
    "model",
    [
        *(f"{name}/{vendor.default_model}" for name, vendor in VENDORS.items()),
        "anthropic/claude-opus-5-5",
        "anthropic/claude-haiku-5-5",
        "anthropic/claude-sonnet-4-5-20250929",
        "anthropic/claude-3-7-sonnet-latest",
        "openai/gpt-5.6-terra",
        "openai/gpt-5-mini-2025-08-07",
        "openai/gpt-5.4",
        "openai/gpt-4o",
        "openai/o3",
        "google/gemini-2.5-pro",
        "google/gemini-4-argon",
    ],
)
def test_every_part_is_priced_once(model: str, usage: Usage):
    priced = price_request(model, usage, NOVEMBER)
    assert priced.cost == float(round(parts(model, usage, NOVEMBER), 10))
    assert priced.priced_by == SOURCE


def test_figures_as_the_vendor_prints_them():
    """Claude Sonnet 5.5: $2 in, $10 out, $0.10 read from the cache, $2.50 written to it."""
    cost = price_request("anthropic/claude-sonnet-5-5", WRITTEN, NOVEMBER).cost
    assert cost == pytest.approx((1_000 * 2 + 15_000 * 0.10 + 4_000 * 2.50 + 500 * 10) / 1e6, abs=1e-12)


def test_long_requests_cost_more_from_the_first_token():
    short, long = (price_request("google/gemini-2.5-pro", Usage(input=n), NOVEMBER).cost for n in (200_000, 200_001))
    assert (short, long) == (0.25, 0.5000025)


def test_price_is_as_of_the_day():
    """Gemini 4 Argon costs twice as much from December on."""
    december = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    before, after = (price_request("google/gemini-4-argon", PLAIN, at).cost for at in (december - 1, december))
    assert before and after == 2 * before


def test_thinking_is_part_of_the_output():
    assert price_request("openai/gpt-5", Usage(10, 500, thinking=400), 0) == price_request(
        "openai/gpt-5", Usage(10, 500), 0
    )


def test_every_name_on_offer_has_a_price():
    for provider, names in load().names.items():
        for name in names:
            assert price_request(f"{provider}/{name}", PLAIN, NOVEMBER).cost, name


def test_google_names_its_models_with_a_prefix():
    plain, prefixed = (
        price_request(f"google/{name}", PLAIN, NOVEMBER) for name in ("gemini-2.5-pro", "models/gemini-2.5-pro")
    )
    assert plain == prefixed != UNPRICED


# ── whose prices ──


@pytest.mark.parametrize(
    ("model", "base_url", "same"),
    [
        ("groq/openai/gpt-oss-120b", "https://api.groq.com/openai/v1", "groq/openai/gpt-oss-120b"),
        ("mine/anthropic/claude-sonnet-4.5", "https://openrouter.ai/api/v1", "openrouter/anthropic/claude-sonnet-4.5"),
        ("work/claude-opus-5-5", "https://API.anthropic.com", "anthropic/claude-opus-5-5"),
        ("openai/deepseek-v4-pro", "https://api.deepseek.com/v1", "deepseek/deepseek-v4-pro"),
    ],
)
def test_server_is_known_by_its_address(model: str, base_url: str, same: str):
    assert price_request(model, CACHED, NOVEMBER, base_url=base_url).cost == float(
        round(parts(same, CACHED, NOVEMBER), 10)
    )


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("openai/no-such-model", ""),
        ("openai/gpt-5", "http://localhost:8000/v1"),
        ("openai/gpt-5", "http://127.0.0.1:4000"),
        ("ollama/gpt-oss:20b", "http://localhost:11434/v1"),
        ("anthropic/claude-opus-5-5", "https://llm.example.com"),
        ("my-openai/gpt-5", ""),
        ("nobody/x", ""),
        ("", ""),
        ("openai/", ""),
    ],
)
def test_what_nobody_knows_has_no_price(model: str, base_url: str):
    assert price_request(model, PLAIN, NOVEMBER, base_url=base_url) == PricedUsage(None, "")


def test_model_without_prices_is_not_free_unless_it_is_called_so():
    assert price_request("google/gemma-4-31b-it", PLAIN, NOVEMBER) == UNPRICED
    free = price_request("router/deepseek/deepseek-r1:free", PLAIN, NOVEMBER, base_url="https://openrouter.ai/api/v1")
    assert free == PricedUsage(0.0, SOURCE)


def test_what_runs_inside_costs_nothing():
    assert price_request("local/smollm2-135m", PLAIN, 0) == PricedUsage(0.0, "local")
    assert price_request("scripted/echo", PLAIN, 0) == PricedUsage(0.0, "scripted")


@pytest.mark.parametrize("at", [float("nan"), float("inf"), 1e300, -1e300])
def test_no_time_is_too_strange(at: float):
    assert price_request("openai/gpt-5", PLAIN, at) == UNPRICED


@pytest.mark.parametrize("usage", [Usage(input=-5), Usage(input=10, output=-1), Usage(10, cached=-3)])
@pytest.mark.parametrize("known", [None, ModelPrices(1, 1)])
def test_counts_that_cannot_be_have_no_price(usage: Usage, known: ModelPrices | None):
    assert price_request("openai/gpt-5", usage, NOVEMBER, known) == UNPRICED


def test_cache_larger_than_what_went_in_is_what_went_in():
    """As servers say it that leave the cached tokens out of the input."""
    cost = price_request("anthropic/claude-sonnet-5-5", Usage(input=10, cached=500, written=90), NOVEMBER).cost
    assert cost == float(round(parts("anthropic/claude-sonnet-5-5", Usage(590, 0, 500, 0, 90), NOVEMBER), 10))


# ── the configuration's ──


@pytest.mark.parametrize(
    ("known", "dollars"),
    [
        (ModelPrices(3, 15), (20_000 * 3 + 500 * 15) / 1e6),
        (ModelPrices(3, 15, cached=0.3), (5_000 * 3 + 15_000 * 0.3 + 500 * 15) / 1e6),
        (ModelPrices(3, 15, 0.3, 3.75), (1_000 * 3 + 15_000 * 0.3 + 4_000 * 3.75 + 500 * 15) / 1e6),
        (ModelPrices(0, 0), 0.0),
    ],
)
@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-5-5", "ollama/whatever", "local/smollm2-135m"])
def test_configured_prices_go_before(model: str, known: ModelPrices, dollars: float):
    priced = price_request(model, WRITTEN, NOVEMBER, known, "http://localhost:11434")
    assert priced.cost == pytest.approx(dollars, abs=1e-12)
    assert priced.priced_by == "configuration"


def test_what_the_configuration_leaves_open_comes_from_genai_prices():
    priced = price_request("anthropic/claude-sonnet-5-5", WRITTEN, NOVEMBER, ModelPrices(input=1))
    assert priced.cost == pytest.approx((1_000 * 1 + 15_000 * 0.10 + 4_000 * 2.50 + 500 * 10) / 1e6, abs=1e-12)
    assert priced.priced_by == f"configuration, {SOURCE}"
    assert price_request("anthropic/claude-sonnet-5-5", WRITTEN, NOVEMBER, ModelPrices()).priced_by == SOURCE


def test_configured_price_leaves_the_table_as_it_was():
    before = price_request("openai/gpt-5", PLAIN, NOVEMBER)
    assert price_request("openai/gpt-5", PLAIN, NOVEMBER, ModelPrices(output=99)) != before
    assert price_request("openai/gpt-5", PLAIN, NOVEMBER) == before


def test_half_a_price_of_a_model_nobody_knows_is_none():
    assert price_request("ollama/x", PLAIN, NOVEMBER, ModelPrices(input=1), "http://localhost:11434") == UNPRICED


@pytest.mark.parametrize("dollars", [float("nan"), float("inf"), -1.0])
def test_price_that_is_no_number(dollars: float):
    assert price_request("openai/gpt-5", PLAIN, NOVEMBER, ModelPrices(dollars, 1)) == UNPRICED
    assert price_request("openai/gpt-5", PLAIN, NOVEMBER, ModelPrices(dollars)) == UNPRICED


def test_decimals_are_exact():
    """0.1 has no binary form: three million tokens at it cost 0.3 dollars, not 0.30000000000000004."""
    assert price_request("x/y", Usage(3_000_000), 0, ModelPrices(0.1, 1)).cost == 0.3
    assert price_request("x/y", Usage(1), 0, ModelPrices(0.0001, 1)).cost == 1e-10


# ── the cost at start ──

IMPORTS = """
import sys
import ikigai.providers.models.prices as prices
from ikigai.core.events.messages import Usage
heavy = {"genai_prices", "pydantic", "httpx2", "decimal"}
print(*sorted(heavy & set(sys.modules)))
prices.price_request("local/x", Usage(1, 1), 0.0)
prices.price_request("x/y", Usage(1, 1), 0.0, prices.ModelPrices(1, 1))
prices.price_request("scripted/echo", Usage(1, 1), 0.0)
prices.price_request("ollama/y", Usage(1, 1), 0.0, None, "http://localhost:11434/v1")
print(*sorted((heavy - {"decimal"}) & set(sys.modules)))
prices.preload()
print(*sorted((heavy - {"decimal"}) & set(sys.modules)))
"""


def test_nothing_heavy_is_imported_before_a_price_needs_it():
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    at_import, without_book, warmed = done.stdout.split("\n")[:3]
    assert (at_import, without_book) == ("decimal", "")
    assert "genai_prices" in warmed


MISSING = """
import sys
sys.modules["genai_prices"] = None
import ikigai.providers.models.prices as prices
from ikigai.core.events.messages import Usage
prices.preload()
assert prices.price_request("openai/gpt-5", Usage(1, 1), 0.0) == prices.UNPRICED
"""


def test_without_genai_prices_there_are_no_prices():
    subprocess.run([sys.executable, "-c", MISSING], check=True)


def test_hour_in_the_cache_is_priced_by_its_own_price():
    """Claude Sonnet 4.5: $3.75 for five minutes, $6 for an hour."""
    usage = Usage(input=3_000, written=3_000, written_1h=1_000)
    known = ModelPrices(input=3.0, output=15.0, written=3.75)
    for cost in (
        price_request("anthropic/claude-sonnet-4-5", usage, NOVEMBER).cost,
        price_request("anthropic/claude-sonnet-4-5", usage, NOVEMBER, known).cost,
    ):
        assert cost == pytest.approx((2_000 * 3.75 + 1_000 * 6) / 1e6)


@pytest.mark.parametrize(
    ("model", "fee"),
    [("anthropic/claude-sonnet-5-5", 10), ("openai/gpt-6.1-sol", 10), ("google/gemini-3.8-flash", 14)],
)
def test_searches_of_the_vendor_cost_a_fee_each(model: str, fee: int):
    plain = price_request(model, PLAIN, NOVEMBER)
    searched = price_request(model, replace(PLAIN, searches=3), NOVEMBER)
    assert plain.cost is not None and searched.cost is not None
    assert round(searched.cost - plain.cost, 9) == 3 * fee / 1000
    assert searched.priced_by == plain.priced_by


def test_fee_joins_configured_prices_and_is_not_guessed_for_other_servers():
    known = ModelPrices(1.0, 2.0)
    found = price_request("openai/gpt-6.1-sol", replace(PLAIN, searches=2), NOVEMBER, known)
    assert found.cost is not None and round(found.cost, 9) == 0.001 + 0.0004 + 0.02
    assert price_request("mine/thing", replace(PLAIN, searches=2), NOVEMBER, known) == UNPRICED


def test_fee_of_a_model_without_one_in_the_list_is_the_vendors(monkeypatch: pytest.MonkeyPatch):
    from ikigai.providers.models import prices

    monkeypatch.setitem(prices.SEARCH_FEES, "anthropic", 1000)
    listed = next(one for one in providers if one.id == "anthropic")
    without = next(
        model.id for model in listed.models
        if not isinstance(model.prices, list) and getattr(model.prices, "web_searches_kcount", None) is None
    )  # fmt: skip
    model = f"anthropic/{without}"
    plain, searched = (price_request(model, usage, NOVEMBER).cost for usage in (PLAIN, replace(PLAIN, searches=1)))
    assert plain is not None and searched is not None and round(searched - plain, 9) == 1.0
