"""Types of values, which check a key's value. Each has a title that names the allowed ones, except a Literal, which
names them itself.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from ikigai.core.commands.arguments import THINKING_LEVELS
from ikigai.core.tools.approval_mode import ApprovalMode


def alternatives(values: Sequence[str]) -> str:
    """Return two values or more in quotes, as a sentence names them."""
    *most, last = (f'"{value}"' for value in values)
    return f"{', '.join(most)} or {last}"


_SIGN = r"[^\s\x00-\x1f\x7f\ud800-\udfff]"
_ANY = r"[^\x00\ud800-\udfff]"

Text = Annotated[str, Meta(pattern=rf"^{_ANY}*\Z", title="text, in UTF-8 and without NUL")]
ModelName = Annotated[
    str,
    Meta(
        pattern=rf"^((?!/){_SIGN}+/{_SIGN}+)?\Z",
        title=f"provider/name, or provider/name:level ({', '.join(THINKING_LEVELS)})",
    ),
]
Thoughts = Literal["fold", "full", "hide"]
Wrap = Literal["words", "terminal"]
Editing = Literal["emacs", "vi"]
ProfileName = Annotated[
    str,
    Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9_-]*)?\Z", title='the name of a profile, "default" for none'),
]
ModelNames = Annotated[tuple[ModelName, ...], Meta(title='a list of models, for example ["openai/gpt-5"]')]
ToolSet = Literal["agents", "ask", "external", "files", "mcp", "memory", "shell", "skills", "vendor_search", "web"]
Sets = Annotated[tuple[ToolSet, ...], Meta(title=f"a list of sets of tools ({', '.join(get_args(ToolSet))})")]
Level = Annotated[
    Literal["", "off", "min", "low", "med", "high"], Meta(title=f'a level ({", ".join(THINKING_LEVELS)}) or ""')
]
Start = Literal["last", "directory", "new"]
Notice = Literal["auto", "osc9", "osc777", "bell", "off"]
ColorText = Literal["auto", "never", "always"]
ThemeName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*\Z",
        title='"auto", "light", "dark", "light-high-contrast", "dark-high-contrast" or NAME of a table [themes.NAME]',
    ),
]
Base = Literal["light", "dark", "light-high-contrast", "dark-high-contrast"]
StyleText = Annotated[
    str,
    Meta(
        title="bold, dim, italic, underline, reverse, a colour (red, bright_red …, 0 to 255 or #rrggbb) and, "
        'after on, a background colour, for example "bold #ffaf00 on 236"',
    ),
]
StatusParts = Annotated[
    tuple[Literal["agent", "background", "model", "context", "out", "cost", "database"], ...],
    Meta(title='a list of "agent", "background", "model", "context", "out", "cost" and "database"'),
]
Tokens = Annotated[int, Meta(ge=0, le=1_000_000_000, title="a number of tokens, 0 to 1000000000, also as '200k'")]
Size = Annotated[int, Meta(ge=1, le=1_000_000_000, title="a number of tokens, 1 to 1000000000, also as '200k'")]
SIZES = Tokens, Size
"""The types of values that can be written with a unit, as `core.commands.arguments.parse_size` reads it."""
StatusPartName = Literal["head", "tail", "both"]
Share = Annotated[float, Meta(ge=0, le=0.5, title="a number from 0 to 0.5")]
CacheLifetime = Literal["auto", "5m", "1h"]
Condensing = Literal["off", "manual", "auto"]
AutoRecall = Literal["off", "suggest", "on"]
Percent = Annotated[int, Meta(ge=5, le=100, title="a whole number of per cent, 5 to 100")]
Results = Annotated[int, Meta(ge=0, le=1_000_000, title="a whole number of results, 0 to 1000000")]
Switch = Annotated[bool, Meta(title="true or false")]
SWITCH_WORDS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
"""Values of the words that turn a setting on or off where it is given as text, in lower case."""
Dsn = Annotated[
    str,
    Meta(
        pattern=rf"^(|embedded|libpq|env:[A-Za-z_][A-Za-z0-9_]*|postgres(ql)?://{_ANY}*|\s*[a-z_]+\s*={_ANY}*)\Z",
        title='a PostgreSQL address (postgresql://USER@HOST/NAME or "host=HOST dbname=NAME"), "env:VARIABLE", '
        '"libpq" or "embedded"',
    ),
]
Durability = Literal["local", "replicated"]
SchemaName = Annotated[
    str,
    Meta(
        pattern=r"^(?!pg_|information_schema\Z)[A-Za-z_][A-Za-z0-9_-]{0,62}\Z",
        title="a name of at most 63 letters, digits, _ and - that does not begin with pg_",
    ),
]
Url = Annotated[
    str,
    Meta(
        pattern=rf"^(https?://{_SIGN}+)?\Z",
        title="an address that begins with http:// or https://, and if it has a port, one up to 65535",
    ),
]
Variable = Annotated[str, Meta(pattern=r"^([A-Z_][A-Z0-9_]*)?\Z", title="a variable's name in capitals, never a key")]
File = Annotated[str, Meta(pattern=rf"^(~?/{_ANY}*)?\Z", title="a path that begins with / or ~/")]
Counter = Literal["bytes", "provider", "calibrated"]
Api = Annotated[
    Literal["", "chat", "responses", "anthropic", "google", "azure", "bedrock", "vertex"],
    Meta(title='"chat", "responses", "anthropic", "google", "azure", "bedrock", "vertex" or "" (by its name)'),
]
CloudName = Annotated[str, Meta(pattern=r"^([a-z0-9][a-z0-9:.-]*)?\Z", title="small letters, digits and -")]
"""The name of a region or a project of a cloud."""
Headers = Annotated[
    dict[str, str],
    Meta(title='a table of headers, for example { X-Title = "me" }, keys only as "env:VARIABLE"'),
]
Body = Annotated[
    dict[str, Any],
    Meta(title='a table of fields, for example { temperature = 0.2 }, keys only as "env:VARIABLE"'),
]
PriceNumber = Annotated[float, Meta(ge=-1, le=1_000_000, title="dollars for a million tokens, up to 1000000, or -1")]
Dollars = Annotated[float, Meta(ge=0, le=1_000_000, title="US dollars, 0 to 1000000; 0 for no cap")]
Levels = Annotated[
    tuple[Literal["off", "min", "low", "med", "high"], ...],
    Meta(title=f"a list of levels ({', '.join(THINKING_LEVELS)})"),
]
Approval = Annotated[
    ApprovalMode, Meta(title=f'{alternatives(ApprovalMode.AUTO.up_to())} ("yolo" only as the flag --yolo)')
]
Sandbox = Literal["off", "bwrap"]
Redact = Literal["patterns", "own", "off"]
Rules = Annotated[
    tuple[Annotated[str, Meta(pattern=r"\S")], ...],
    Meta(title='a list of commands, for example ["npm test", "make *"]'),
]
Hosts = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[^\s/@]+\Z")], ...],
    Meta(title='a list of names or addresses of hosts, for example ["localhost", "wiki.lan"]'),
]
Variables = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\*?\Z")], ...],
    Meta(title='a list of variables\' names, for example ["KUBECONFIG", "AWS_*"]'),
]
KeyNames = Annotated[
    tuple[str, ...], Meta(title='a list of keys, for example ["ctrl-x ctrl-e", "alt-enter", "f2"]; [] for none')
]
Arguments = Annotated[
    tuple[Text, ...],
    Meta(title='a list of texts, for example ["-y", "a-server"], without keys: these belong in env'),
]
ServerUrl = Annotated[
    str,
    Meta(
        pattern=rf"^(https?://{_SIGN}+)?\Z",
        title="an address that begins with http:// or https://, without a key: that belongs in headers",
    ),
]
Environment = Annotated[
    dict[str, str], Meta(title='a table of variables, for example { ROOT = "/srv" }, keys only as "env:VARIABLE"')
]
SecretPlace = Annotated[
    str, Meta(pattern=r"^(env:[A-Za-z_][A-Za-z0-9_]*)?\Z", title='"env:VARIABLE", never the secret itself, or ""')
]
ToolPatterns = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^\S+\Z")], ...],
    Meta(title='a list of tools\' names, with * for any part, for example ["read_*", "search"]'),
]
SkillNames = Annotated[
    tuple[Annotated[str, Meta(pattern=r"^[^\s,]+\Z")], ...],
    Meta(title='a list of names of skills, for example ["pdf", "release-notes"]'),
]
StartupSeconds = Annotated[int, Meta(ge=1, le=3_600, title="a whole number of seconds, 1 to 3600")]
CallSeconds = Annotated[int, Meta(ge=1, le=86_400, title="a whole number of seconds, 1 to 86400")]
Sight = Literal["auto", "yes", "no"]


def is_look(text: str) -> bool:
    """Return True if a text is a StyleText. Its type has no pattern: compiling one takes a millisecond, which few runs
    need.
    """
    names = "black|red|green|yellow|blue|magenta|cyan|white"
    color = rf"(?:(?:bright_)?(?:{names})|#[0-9A-Fa-f]{{6}}|1?[0-9]?[0-9]|2[0-4][0-9]|25[0-5])"
    attributes = r"(?:(?:bold|dim|italic|underline|reverse)(?: +|\Z))*"
    return bool(re.fullmatch(rf" *{attributes}(?:{color}(?: +|\Z))?(?:on +{color} *)?", text))
