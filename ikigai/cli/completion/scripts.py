"""This module writes the scripts that make bash, zsh and fish complete a tree of commands."""

from __future__ import annotations

import shlex
from typing import NamedTuple

FILES, AGENTS, NOTHING = "files", "agents", ""
"""Kinds of values that are not one of a few."""


class Option(NamedTuple):
    """An option of a command.

    `flags` are its names. `takes` is True if a value follows, which is one of `values`, or else of the `kind`. The
    value can be left out if it is `optional`.
    """

    flags: tuple[str, ...]
    help: str
    takes: bool
    values: tuple[str, ...]
    kind: str
    optional: bool = False


class Node(NamedTuple):
    """One command: the words that lead to it, its help, its options, its subcommands, and the values of its
    arguments.
    """

    path: tuple[str, ...]
    help: str
    options: tuple[Option, ...]
    commands: tuple[tuple[str, str], ...]
    values: tuple[str, ...]
    kind: str


# ── bash ──


def bash_script(nodes: list[Node]) -> str:
    """Return a function that looks at the words before the cursor; it needs bash 4 and nothing else."""
    takers = {flag for node in nodes for option in node.options if option.takes for flag in option.flags}
    commands = "".join(
        f"      {shlex.quote(' '.join((*node.path, name)))}) path={shlex.quote(' '.join((*node.path, name)))} ;;\n"
        for node in nodes
        for name, _ in node.commands
    )
    values = "".join(_bash_values(node, option) for node in nodes for option in node.options if option.takes)
    words = "".join(
        f"    {shlex.quote(' '.join(node.path))}) flags={shlex.quote(' '.join(_flags(node)))}\n"
        f"      words={shlex.quote(' '.join((*(name for name, _ in node.commands), *node.values)))}; "
        f"kind={node.kind or 'none'} ;;\n"
        for node in nodes
    )
    return f"""\
# bash completion for ikigai; made by: ikigai completion bash
_ikigai() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="" path="" skip="" flags="" words="" kind="" word n
  COMPREPLY=()
  for ((n = 1; n < COMP_CWORD; n++)); do
    word="${{COMP_WORDS[n]}}"
    if [[ -n $skip && $word != -* ]]; then skip=""; continue; fi
    skip=""
    case "$word" in
      {"|".join(sorted(takers))}) skip=yes; continue ;;
      -*) continue ;;
    esac
    case "${{path:+$path }}$word" in
{commands}    esac
  done
  ((COMP_CWORD > 0)) && previous="${{COMP_WORDS[COMP_CWORD-1]}}"
  if [[ -n $skip && $current != -* ]]; then
    kind=none
    case "$path $previous" in
{values}    esac
  else
    case "$path" in
{words}    esac
    if [[ $current == -* ]]; then words="$flags"; kind=none; fi
  fi
  if [[ $kind == agents ]]; then
    if [[ -z ${{_ikigai_asked-}} ]] || ((SECONDS - _ikigai_asked > 20)); then
      _ikigai_names="$(ikigai completion --agents 2>/dev/null)"
      _ikigai_asked=$SECONDS
    fi
    words="$words $_ikigai_names"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ $kind == files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$current")
  fi
}}
complete -F _ikigai ikigai"""


def _bash_values(node: Node, option: Option) -> str:
    patterns = "|".join(shlex.quote(f"{' '.join(node.path)} {flag}") for flag in option.flags)
    return f"      {patterns}) words={shlex.quote(' '.join(option.values))}; kind={option.kind or 'none'} ;;\n"


def _flags(node: Node) -> list[str]:
    return [flag for option in node.options for flag in option.flags]


# ── zsh ──


def zsh_script(nodes: list[Node]) -> str:
    """Return a function for each command, for _arguments of zsh's own completion system."""
    functions = "\n".join(map(_zsh_function, nodes))
    return f"""\
#compdef ikigai
# zsh completion for ikigai; made by: ikigai completion zsh
_ikigai_agents() {{
  local -a names
  names=(${{(f)"$(ikigai completion --agents 2>/dev/null)"}})
  compadd -a names
}}
{functions}
compdef _ikigai ikigai"""


def _zsh_function(node: Node) -> str:
    name = "_".join(("_ikigai", *node.path))
    lines = [f"    {shlex.quote(_zsh_option(option, flag))}" for option in node.options for flag in option.flags]
    if node.commands:
        described = " ".join(shlex.quote(f"{_zsh(word)}:{_zsh(said)}") for word, said in node.commands)
        cases = "\n".join(f"        {word}) {name}_{word} ;;" for word, _ in node.commands)
        # Words that are no command are a message, in which files can be mentioned.
        return f"""\
{name}() {{
  local curcontext="$curcontext" state line
  local -a commands
  commands=({described})
  _arguments -C \\
{_continued([*lines, "'1: :->command'", "'*:: :->rest'"])}
  case $state in
    command) _describe command commands{" ; _files" * (node.kind == FILES)} ;;
    rest)
      case $line[1] in
{cases}
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
    return f"{flag}[{said}]" + (
        f"{between}value:{_zsh_action(option.values, option.kind) or ' '}" if option.takes else ""
    )


def _zsh_action(values: tuple[str, ...], kind: str) -> str:
    if values:
        return f"({' '.join(values)})"
    return {FILES: "_files", AGENTS: "_ikigai_agents"}.get(kind, "")


def _zsh(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")


# ── fish ──


def fish_script(nodes: list[Node]) -> str:
    """Return a line for each thing that can follow."""
    lines = [
        "# fish completion for ikigai; made by: ikigai completion fish",
        "function __ikigai_at",
        "    set -l words (commandline -opc | string match -v -- '-*')",
        '    test "$words[2..-1]" = "$argv"',
        "end",
        "function __ikigai_under",
        "    set -l words (commandline -opc | string match -v -- '-*')",
        '    string match -q -- "$argv *" "$words[2..-1] "',
        "end",
        "complete -c ikigai -f",
    ]
    for node in nodes:
        path = " ".join(node.path)
        at = f"-n {_fish(f'__ikigai_at {path}'.strip())}"
        under = f"-n {_fish(f'__ikigai_under {path}'.strip())}" if path else at
        lines += [f"complete -c ikigai {at} -a {name} -d {_fish(said)}" for name, said in node.commands]
        if rest := _fish_action(node.values, node.kind):
            lines.append(f"complete -c ikigai {under if path else at} {rest}")
        lines += [f"complete -c ikigai {under} {_fish_option(option)}".rstrip() for option in node.options]
    return "\n".join(lines)


def _fish_option(option: Option) -> str:
    names = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
    asks = "" if option.optional else "-x "
    value = (
        f"{asks}{_fish_action(option.values, option.kind)}".replace("-x -F", "-r -F").rstrip() if option.takes else ""
    )
    return " ".join(filter(None, (*names, value, f"-d {_fish(option.help)}")))


def _fish_action(values: tuple[str, ...], kind: str) -> str:
    if values:
        return f"-a {_fish(' '.join(values))}"
    return {FILES: "-F", AGENTS: "-a '(ikigai completion --agents 2>/dev/null)'"}.get(kind, "")


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
