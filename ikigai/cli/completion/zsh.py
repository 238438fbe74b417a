"""Write the script that makes zsh complete a tree of commands."""

from __future__ import annotations

import shlex

from ikigai.cli.completion.nodes import FILES, KEY_VALUES, MENTIONS, NAMES, Node, Option


def zsh_script(nodes: list[Node]) -> str:
    """Return a function for each command, for _arguments of zsh's own completion system."""
    functions = "\n".join(map(_zsh_function, nodes))
    return f"""\
#compdef ikigai
# zsh completion for ikigai; made by: ikigai completion zsh
__ikigai_names() {{
  local -a names
  names=(${{(f)"$(ikigai completion --names "$@" 2>/dev/null)"}})
  compadd -a names
}}
__ikigai_settings() {{
  if ((CURRENT == 2)); then __ikigai_names keys; elif ((CURRENT == 3)); then __ikigai_names values $words[2]; fi
}}
__ikigai_mentions() {{ compset -P '@' && _files }}
{functions}
compdef _ikigai ikigai"""


def _zsh_function(node: Node) -> str:
    name = "_".join(("_ikigai", *node.path))
    lines = [f"    {shlex.quote(_zsh_option(option, flag))}" for option in node.options for flag in option.flags]
    if node.commands:
        described = " ".join(shlex.quote(f"{_zsh(word)}:{_zsh(said)}") for word, said in node.commands)
        cases = "\n".join(f"        {word}) {name}_{word} ;;" for word, _ in node.commands)
        mentions = node.kind == MENTIONS  # words that are no command are a message
        return f"""\
{name}() {{
  local curcontext="$curcontext" state line
  local -a commands
  commands=({described})
  _arguments -C \\
{_continued([*lines, "'1: :->command'", "'*:: :->rest'"])}
  case $state in
    command) {"__ikigai_mentions || " * mentions}_describe command commands ;;
    rest)
      case $line[1] in
{cases}
{"        *) __ikigai_mentions ;;" * mentions}
      esac ;;
  esac
}}"""
    rest = _zsh_action(node.values, node.kind)
    positional = [shlex.quote(f"*: :{rest}")] if rest else []
    return f"{name}() {{\n  _arguments \\\n{_continued([*lines, *positional])}\n}}"


def _continued(lines: list[str]) -> str:
    return " \\\n".join(f"    {line.strip()}" for line in lines)


def _zsh_option(option: Option, flag: str) -> str:
    said = _zsh(option.help).replace("[", "(").replace("]", ")")
    between = "::" if option.optional else ":"
    joined = "=" * (option.takes and flag.startswith("--"))
    return f"{flag}{joined}[{said}]" + (
        f"{between}value:{_zsh_action(option.values, option.kind) or ' '}" if option.takes else ""
    )


def _zsh_action(values: tuple[str, ...], kind: str) -> str:
    if values:
        return f"({' '.join(values)})"
    if kind in NAMES:
        return f" __ikigai_names {kind}"  # the blank keeps options of compadd from its arguments
    return {FILES: "_files", MENTIONS: "__ikigai_mentions", KEY_VALUES: "__ikigai_settings"}.get(kind, "")


def _zsh(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")
