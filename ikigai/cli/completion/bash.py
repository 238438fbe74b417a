"""Write the script that makes bash complete a tree of commands. It needs bash 4 and nothing else."""

from __future__ import annotations

import re
import shlex

from ikigai.cli.completion.nodes import NAMES, Node, Option

SCRIPT = """\
# bash completion for ikigai; made by: ikigai completion bash
_ikigai_names() {
  if [[ ${_ikigai_kind-} != "$*" ]] || ((SECONDS - _ikigai_asked > 20)); then
    _ikigai_found="$(ikigai completion --names "$@" 2>/dev/null)"
    _ikigai_kind="$*" _ikigai_asked=$SECONDS
  fi
}
_ikigai() {
  local -a parts=()
  local rest="${COMP_LINE:0:COMP_POINT}" path="" skip="" flags="" words="" kind="" prefix="" given=0 key=""
  local piece word n
  COMPREPLY=()
  for ((n = 0; n <= COMP_CWORD; n++)); do
    piece="${COMP_WORDS[n]}"
    if ((n == 0)) || [[ $rest == [[:space:]]* ]]; then
      rest="${rest#"${rest%%[![:space:]]*}"}"
      parts+=("$piece")
    else
      parts[${#parts[@]}-1]+="$piece"
    fi
    rest="${rest#"$piece"}"
  done
  local last=$((${#parts[@]} - 1))
  local current="${parts[last]}" previous="${parts[last > 0 ? last - 1 : 0]}"
  local replaced="${COMP_WORDS[COMP_CWORD]}"
  [[ $replaced == [=:@] ]] && replaced=""
  local kept="${current%"$replaced"}"
  kept="${kept%@}"  # an @ is replaced with what follows
  for ((n = 1; n < last; n++)); do
    word="${parts[n]}"
    if [[ -n $skip && $word != -* ]]; then skip=""; continue; fi
    skip=""
    case "$word" in
      @takers@) skip=yes; continue ;;
      -*) continue ;;
    esac
    ((given += 1))
    key="$word"
    case "${path:+$path }$word" in
@commands@    esac
  done
  if [[ $current == --*=* ]]; then
    previous="${current%%=*}" skip=yes prefix="${current%%=*}="
    current="${current#*=}"
  fi
  if [[ -n $skip && $current != -* ]]; then
    kind=none
    case "$path $previous" in
@values@    esac
  else
    case "$path" in
@words@    esac
    if [[ $current == -* ]]; then words="$flags"; kind=none; fi
  fi
  if [[ $kind == settings ]]; then
    if ((given)); then _ikigai_names values "$key"; else _ikigai_names keys; fi
    ((given < 2)) && words="$words $_ikigai_found"
  fi
  case "$kind" in
    @names@) _ikigai_names "$kind"; words="$words $_ikigai_found" ;;
    mentions) [[ $current == @* ]] && kind=files prefix="$prefix@" current="${current#@}" words="" ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  if [[ $kind == files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
  fi
  for n in "${!COMPREPLY[@]}"; do
    word="$prefix${COMPREPLY[n]}"
    COMPREPLY[n]="${word#"$kept"}"
  done
}
complete -F _ikigai ikigai"""
"""The script, with names between @ for the parts that depend on the commands."""


def bash_script(nodes: list[Node]) -> str:
    """Return a function that looks at the words before the cursor.

    bash divides words at = : and @; the function puts them together again, and takes from each completion what stands
    before the last piece, which alone is replaced.
    """
    takers = {flag for node in nodes for option in node.options if option.takes for flag in option.flags}
    paths = [shlex.quote(" ".join((*node.path, name))) for node in nodes for name, _ in node.commands]
    commands = "".join(f"      {path}) path={path}; given=0 ;;\n" for path in paths)
    values = "".join(_bash_values(node, option) for node in nodes for option in node.options if option.takes)
    words = "".join(
        f"    {shlex.quote(' '.join(node.path))}) flags={shlex.quote(' '.join(_flags(node)))}\n"
        f"      words={shlex.quote(' '.join((*(name for name, _ in node.commands), *node.values)))}; "
        f"kind={node.kind or 'none'} ;;\n"
        for node in nodes
    )
    parts = {
        "takers": "|".join(sorted(takers)),
        "commands": commands,
        "values": values,
        "words": words,
        "names": "|".join(NAMES),
    }
    return re.sub("@([a-z]+)@", lambda found: parts[found[1]], SCRIPT)


def _bash_values(node: Node, option: Option) -> str:
    patterns = "|".join(shlex.quote(f"{' '.join(node.path)} {flag}") for flag in option.flags)
    return f"      {patterns}) words={shlex.quote(' '.join(option.values))}; kind={option.kind or 'none'} ;;\n"


def _flags(node: Node) -> list[str]:
    return [flag for option in node.options for flag in option.flags]
