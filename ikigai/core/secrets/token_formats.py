"""List well-known formats of API keys and other tokens.

The formats come from the vendors' documentation and from the rules of the scanners gitleaks (config/gitleaks.toml),
trufflehog, detect-secrets and noseyparker: prefixes, lengths and alphabets. Where vendors announce longer tokens
(GitHub: up to 255 characters), a pattern takes the whole run of token characters. Formats without a prefix, which those
scanners find by the name of a variable before them, are left out: they would hide ordinary words.
"""

import msgspec


class TokenFormat(msgspec.Struct, frozen=True):
    """A format: tokens begin with one of `hints`, where `pattern` matches them; group 1, if any, is the secret part."""

    name: str
    hints: tuple[str, ...]
    pattern: str
    kinds: int = 2
    """The least number of kinds among lower case, upper case and digits; a token with fewer is taken for words. With 0
    the pattern alone decides.
    """


def _hex(prefix: str, length: int) -> str:
    return rf"{prefix}[0-9a-f]{{{length}}}(?![0-9A-Za-z])"


def _word(prefix: str, least: int, most: str = "") -> str:
    return rf"{prefix}[0-9A-Za-z]{{{least},{most}}}(?![0-9A-Za-z])"


FORMATS_AT_RUN = (
    TokenFormat("Anthropic API key", ("sk-ant-",), r"sk-ant-[\w-]{32,}"),
    TokenFormat("OpenRouter API key", ("sk-or-",), r"sk-or-[\w-]{32,}"),
    TokenFormat(
        "OpenAI API key",
        ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"),
        r"sk-(?:proj|svcacct|admin|None)-[\w-]{32,}",
    ),
    # Of OpenAI until 2024, and of the many services that took over its form.
    TokenFormat("API key", ("sk-",), _word("sk-", 32)),
    TokenFormat("Google API key", ("AIza",), r"AIza[\w-]{35}(?![\w-])"),
    TokenFormat("Groq API key", ("gsk_",), _word("gsk_", 40)),
    TokenFormat("xAI API key", ("xai-",), _word("xai-", 60)),
    TokenFormat("Perplexity API key", ("pplx-",), _word("pplx-", 40)),
    TokenFormat("Hugging Face token", ("hf_",), _word("hf_", 30)),
    TokenFormat("Replicate token", ("r8_",), _word("r8_", 37, "40")),
    # Not within base64, where so short a prefix is bound to come up.
    TokenFormat("Brave Search API key", ("BSA",), r"(?<![0-9A-Za-z][+/])BSA[\w-]{24,32}(?![\w-])", kinds=3),
    TokenFormat("Tavily API key", ("tvly-",), r"tvly-(?:dev-|prod-)?[0-9A-Za-z-]{28,}"),
    TokenFormat("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_\w{36,}"),
    TokenFormat("GitHub token", ("github_pat_",), r"github_pat_\w{50,}"),
    # Routable tokens go on behind a dot.
    TokenFormat(
        "GitLab token",
        ("glpat-", "gldt-", "glrt-", "glrtr-", "glptt-", "glcbt-", "glsoat-", "glft-", "glimt-", "glagent-", "gloas-"),
        r"gl(?:pat|dt|rtr?|ptt|cbt|soat|ft|imt|agent|oas)-[\w-]{20,}(?:\.[\w.]{2,40})?",
    ),
    TokenFormat(
        "AWS access key ID",
        ("AKIA", "ASIA", "ABIA", "ACCA"),
        r"A(?:[KSB]IA|CCA)[A-Z2-7]{16}(?![0-9A-Za-z])",
        kinds=1,
    ),
    TokenFormat("Amazon Bedrock API key", ("ABSK",), r"ABSK[0-9A-Za-z+/]{100,}={0,2}"),
    # Old ones of bots are digits alone; a cookie (xoxd) is written as in an address.
    TokenFormat(
        "Slack token",
        (*(f"xox{kind}-" for kind in "abcdeoprs"), "xoxe."),
        r"xox[abcdeoprs](?:\.xox[bp])?-(?=[\w-]{0,60}\d)(?:[\w-]|%2[BF]|%3D){15,}",
        kinds=1,
    ),
    TokenFormat("Slack token", ("xapp-",), r"xapp-\d-[\w-]{20,}"),
    TokenFormat(
        "Stripe API key",
        tuple(f"{kind}k_{world}_" for kind in "rs" for world in ("live", "test", "prod")),
        _word("[rs]k_(?:live|test|prod)_", 20),
    ),
    TokenFormat("Stripe webhook secret", ("whsec_",), r"whsec_[0-9A-Za-z+/]{32,}={0,2}"),
    TokenFormat("npm token", ("npm_",), _word("npm_", 36)),
    TokenFormat("PyPI token", ("pypi-AgE",), r"pypi-AgE[\w-]{50,}"),
    TokenFormat("Docker Hub token", ("dckr_pat_", "dckr_oat_"), r"dckr_[po]at_[\w-]{20,}"),
    TokenFormat("DigitalOcean token", ("dop_v1_", "doo_v1_", "dor_v1_"), _hex("do[opr]_v1_", 64)),
    TokenFormat("Databricks token", ("dapi",), r"dapi[0-9a-f]{32}(?:-\d)?(?![0-9A-Za-z])"),
    TokenFormat("Shopify token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"shp(?:at|[cp]a|ss)_[0-9A-Fa-f]{32}(?!\w)"),
    TokenFormat("Linear API key", ("lin_api_",), _word("lin_api_", 40)),
    TokenFormat("Notion token", ("ntn_",), _word("ntn_", 40)),
    TokenFormat("Notion token", ("secret_",), _word("secret_", 43, "43"), kinds=3),
    TokenFormat("Twilio API key", ("SK",), _hex("SK", 32)),
    TokenFormat("Mailgun API key", ("key-",), _hex("key-", 32)),
    TokenFormat("Grafana token", ("glsa_",), r"glsa_[0-9A-Za-z]{32}_[0-9A-Fa-f]{8}"),
    TokenFormat("age secret key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}"),
    # Behind the bot's number, which is public.
    TokenFormat("Telegram bot token", ("AA",), r"(?<=\d{8}:)AA[\w-]{33}(?![\w-])"),
    # Begins with the bot's number, as base64 of decimal digits.
    TokenFormat(
        "Discord bot token",
        tuple(first + second for first in "MNO" for second in "DTjz"),
        r"[MNO][DTjz][AEIMQUYcgk][0-5w-z][0-9A-Za-z]{19,24}\.[\w-]{6}\.[\w-]{27,}",
    ),
    TokenFormat("1Password token", ("ops_eyJ",), r"ops_eyJ[\w+/-]{100,}={0,3}"),
    TokenFormat("Adobe client secret", ("p8e-",), r"p8e-[\w-]{32}(?![\w-])"),
    TokenFormat("Alibaba access key ID", ("LTAI",), _word("LTAI", 16, "20")),
    TokenFormat("Artifactory token", ("AKCp",), _word("AKCp", 69, "69")),
    TokenFormat("Artifactory token", ("cmVmd",), _word("cmVmd", 59, "59")),
    TokenFormat("Atlassian token", ("ATATT3", "ATCTT3"), r"AT[AC]TT3[\w=-]{100,}"),
    TokenFormat("Bitbucket app password", ("ATBB",), _word("ATBB", 32, "32")),
    TokenFormat("Buildkite token", ("bkua_",), _hex("bkua_", 40)),
    TokenFormat("Cerebras API key", ("csk-",), _word("csk-", 40)),
    TokenFormat("CircleCI token", ("CCIPAT_",), r"CCIPAT_\w{20,24}_[0-9a-f]{40}"),
    TokenFormat("Clojars token", ("CLOJARS_",), _word("CLOJARS_", 60, "60")),
    TokenFormat("Contentful token", ("CFPAT-",), r"CFPAT-[\w-]{43}"),
    TokenFormat("crates.io token", ("cio",), _word("cio", 32, "32"), kinds=3),
    TokenFormat("Duffel token", ("duffel_test_", "duffel_live_"), r"duffel_(?:test|live)_[\w=-]{43}"),
    TokenFormat("EasyPost API key", ("EZAK", "EZTK"), _word("EZ[AT]K", 54, "54")),
    TokenFormat("ElevenLabs API key", ("sk_",), _hex("sk_", 48)),
    TokenFormat("Figma token", ("figd_",), r"figd_[\w-]{35,}"),
    TokenFormat("Firecrawl API key", ("fc-",), _hex("fc-", 32)),
    TokenFormat("Fireworks API key", ("fw_",), _word("fw_", 22, "40"), kinds=3),
    TokenFormat("Fly.io token", ("fo1_",), r"fo1_[\w-]{43}"),
    TokenFormat("Fly.io token", ("fm1a_", "fm1r_", "fm2_"), r"fm(?:1[ar]|2)_[\w+/]{100,}={0,3}"),
    TokenFormat("Frame.io token", ("fio-u-",), r"fio-u-[\w=-]{64}"),
    TokenFormat("GitLab token", ("GR1348941",), r"GR1348941[\w-]{20,}"),
    TokenFormat("Google OAuth client secret", ("GOCSPX-",), r"GOCSPX-[\w-]{28}(?![\w-])"),
    TokenFormat("Grafana token", ("glc_",), r"glc_[\w+/]{32,400}={0,3}"),
    TokenFormat("Grafana token", ("eyJrIjoi",), r"eyJrIjoi[\w+/]{70,400}={0,3}(?!\.)"),
    TokenFormat("Heroku API key", ("HRKU-AA",), r"HRKU-AA[\w-]{58}"),
    TokenFormat("Hugging Face token", ("api_org_",), _word("api_org_", 30)),
    TokenFormat("Infracost API key", ("ico-",), _word("ico-", 32, "32")),
    TokenFormat("Jina API key", ("jina_",), r"jina_[\w-]{40,}"),
    TokenFormat("LangSmith API key", ("lsv2_pt_", "lsv2_sk_"), r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    TokenFormat("Netlify token", ("nfp_",), _word("nfp_", 36)),
    TokenFormat("Neon API key", ("napi_",), r"napi_[0-9a-z]{60,}"),
    TokenFormat("New Relic key", ("NRAK-", "NRII-", "NRJS-"), r"NR(?:AK|II|JS)-[0-9A-Za-z-]{19,32}"),
    TokenFormat("NuGet API key", ("oy2",), _word("oy2", 43, "43")),
    TokenFormat("NVIDIA API key", ("nvapi-",), r"nvapi-[\w-]{60,}"),
    TokenFormat("Octopus Deploy API key", ("API-",), r"API-[0-9A-Z]{26}(?![\w-])"),
    TokenFormat(
        "Plaid token",
        ("access-sandbox-", "access-development-", "access-production-"),
        r"access-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    ),
    TokenFormat("PlanetScale token", ("pscale_",), r"pscale_(?:tkn|oauth|pw)_[\w=-]{32,64}"),
    TokenFormat("Postman API key", ("PMAK-",), r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    TokenFormat("Prefect API key", ("pnu_",), _word("pnu_", 36, "36")),
    TokenFormat("Pulumi token", ("pul-",), _hex("pul-", 40)),
    TokenFormat("ReadMe API key", ("rdme_",), r"rdme_[0-9a-z]{70}"),
    TokenFormat("Render API key", ("rnd_",), _word("rnd_", 28)),
    TokenFormat("Resend API key", ("re_",), r"re_[0-9A-Za-z]{8}_[0-9A-Za-z]{20,}(?!\w)", kinds=3),
    TokenFormat("RubyGems API key", ("rubygems_",), _hex("rubygems_", 48)),
    TokenFormat("Scalingo token", ("tk-us-",), r"tk-us-[\w-]{48}"),
    TokenFormat("Brevo API key", ("xkeysib-", "xsmtpsib-"), r"x(?:key|smtp)sib-[0-9a-f]{64}-[0-9A-Za-z]{16}"),
    TokenFormat("Sentry token", ("sntryu_",), _hex("sntryu_", 64)),
    TokenFormat("Sentry token", ("sntrys_",), r"sntrys_[\w+/]{60,}={0,2}(?:_[\w+/]{43})?"),
    TokenFormat("Shippo token", ("shippo_live_", "shippo_test_"), _hex("shippo_(?:live|test)_", 40)),
    TokenFormat("SonarQube token", ("squ_", "sqp_", "sqa_"), _hex("sq[upa]_", 40)),
    TokenFormat("Sourcegraph token", ("sgp_",), _hex("sgp_(?:[0-9a-f]{16}_|local_)?", 40)),
    TokenFormat("Square token", ("sq0atp-", "sq0csp-", "sq0idp-"), r"sq0(?:atp|csp|idp)-[\w-]{22,60}"),
    # Of Facebook and of Square; not within base64.
    TokenFormat("Square token", ("EAAA",), r"(?<![0-9A-Za-z][+/])EAAA[\w-]{56,60}(?![\w-])", kinds=3),
    TokenFormat("Facebook token", ("EAA",), r"(?<![0-9A-Za-z][+/])EAA[A-Z][0-9A-Za-z]{100,}(?![+/=])", kinds=3),
    TokenFormat("Supabase token", ("sbp_",), _hex("sbp_", 40)),
    TokenFormat("Supabase token", ("sb_secret_",), r"sb_secret_[\w-]{20,}"),
    TokenFormat("Tailscale key", ("tskey-",), r"tskey-[a-z]{2,12}-[0-9A-Za-z]{6,24}-[0-9A-Za-z]{20,}"),
    TokenFormat("Together API key", ("tgp_v1_",), r"tgp_v1_[\w-]{40,}"),
    TokenFormat("Typeform token", ("tfp_",), r"tfp_[\w-]{40,}"),
    TokenFormat("Yandex API key", ("AQVN",), r"AQVN[\w-]{35,38}(?![\w-])"),
    TokenFormat("JSON web token", ("eyJ",), r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{16,}"),
)
"""Tokens that begin where a run of token characters begins."""
FORMATS_BEFORE_RUN = (
    TokenFormat("SendGrid API key", ("SG.",), r"SG\.[\w-]{20,24}\.[\w-]{39,50}"),
    TokenFormat("HashiCorp Vault token", ("hvs.", "hvb.", "hvr."), r"hv[sbr]\.[\w-]{24,}"),
    TokenFormat("Doppler token", ("dp.pt.", "dp.ct.", "dp.sa."), r"dp\.(?:pt|ct|sa)\.[0-9A-Za-z]{40,44}(?!\w)"),
    TokenFormat("Dynatrace token", ("dt0c01.", "dt0s01.", "dt0s16."), r"dt0[cs]\d\d\.[0-9A-Z]{24}\.[0-9A-Z]{64}"),
    TokenFormat("Harness token", ("pat.", "sat."), r"[ps]at\.[\w-]{22}\.[0-9a-f]{24}\.[0-9A-Za-z]{20}"),
    TokenFormat("Google OAuth token", ("ya29.",), r"ya29\.[\w-]{30,}"),
)
"""Tokens of which a run follows right behind the hint."""
_PASSWORD = r"[^\s/?#'\"<>{}`\\]{8,200}"
FORMATS_ANYWHERE = (
    # The text between the first line and the last; where the last is cut off, all lines of base64 that follow, with the
    # prefixes and separators of lines in a listing or in a literal.
    TokenFormat(
        "private key",
        ("-BEGIN ",),
        r"-BEGIN (?:[0-9A-Z]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----(?=(?:[^-]|-(?!----)){0,400}?[0-9A-Za-z+/]{24})"
        r"((?:[^-]++|-(?!----))*+(?=-----END )"
        r"|(?:(?:\\[rn]|[^0-9A-Za-z+/=]){0,24}(?:\d{1,6}[^0-9A-Za-z+/=]{1,12})?[0-9A-Za-z+/=]{40,}+)++)",
        kinds=0,
    ),
    TokenFormat(
        "AWS secret access key",
        ("ecret_access_key", "ECRET_ACCESS_KEY", "ecretAccessKey"),
        r"(?i:ecret_?access_?key)\\?[\"']?[ \t]{0,20}(?:[:=]>?|>)[ \t]{0,20}\\?[\"']?"
        r"([0-9A-Za-z/+]{40})(?![0-9A-Za-z/+=])",
    ),
    TokenFormat(
        "private key", ("Private-Lines:",), r"Private-Lines: \d{1,3}((?:\r?\n[0-9A-Za-z+/=]{4,64})+)", kinds=0
    ),  # of PuTTY
    TokenFormat(
        "WireGuard private key", ("PrivateKey",), r"PrivateKey[ \t]{0,9}=[ \t]{0,9}([0-9A-Za-z+/]{43}=)(?![\w=])"
    ),
    TokenFormat("Azure client secret", ("Q~",), r"(?<=[\w.~-]{3}\d)Q~[\w.~-]{31,34}(?![\w.~-])"),
    TokenFormat("Terraform token", (".atlasv1.",), r"\.atlasv1\.([\w=-]{60,70})(?![\w=-])"),
    TokenFormat("OpenShift token", ("sha256~",), r"sha256~([\w-]{43})(?![\w-])"),
    TokenFormat(
        "Discord webhook", ("://",), r"://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d{15,20}/([\w-]{60,80})"
    ),
    TokenFormat("Teams webhook", ("://",), r"://[\w-]{1,60}\.webhook\.office\.com/(webhookb2/[\w@/-]{100,300})"),
    TokenFormat("Azure storage key", ("AccountKey=",), r"AccountKey=([0-9A-Za-z+/]{40,90}={0,2})"),
    TokenFormat("Slack webhook", ("://",), r"://hooks\.slack\.com/((?:services|workflows|triggers)/[\w/]{40,80})"),
    # Words are passwords in documentation, and a number with a comma is the port of the first of several hosts.
    TokenFormat(
        "password in URL",
        ("://",),
        rf"://[^\s:/?#@'\"<>]{{0,80}}:(?={_PASSWORD}@)(?![$%*(\[]|\d{{1,5}},|[^\s@]*(?:%s|(?i:pass|word|secret|token)))"
        rf"({_PASSWORD})@",
    ),
)
"""Tokens with a hint of their own that is rare enough to be searched for."""
TOKEN_FORMATS = FORMATS_AT_RUN + FORMATS_BEFORE_RUN + FORMATS_ANYWHERE
TOKEN_NAMES = frozenset(each.name for each in TOKEN_FORMATS)
