"""Write the script that makes fish complete a tree of commands."""

from __future__ import annotations

from ikigai.cli.completion.nodes import FILES, KEY_VALUES, KEYS, MENTIONS, NAMES, Node, Option


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
        "function __ikigai_after",
        "    contains -- (commandline -opc)[-1] $argv",
        "end",
        "function __ikigai_value",
        "    set -l words (commandline -opc | string match -v -- '-*')",
        '    test (count $words) = 4 -a "$words[2..3]" = "config set"',
        "end",
        "function __ikigai_mentions",
        "    set -l typed (commandline -ct)",
        "    string match -q -- '@*' $typed; or return",
        "    for file in (__fish_complete_path (string sub -s 2 -- $typed))",
        "        echo @$file",
        "    end",
        "end",
        "complete -c ikigai -f",
        f"complete -c ikigai -n __ikigai_value -a {_fish_names('values (commandline -opc)[-1]')}",
    ]
    for node in nodes:
        path = " ".join(node.path)
        at = f"-n {_fish(f'__ikigai_at {path}'.strip())}"
        under = f"-n {_fish(f'__ikigai_under {path}'.strip())}" if path else at
        lines += [f"complete -c ikigai {at} -a {name} -d {_fish(said)}" for name, said in node.commands]
        if rest := _fish_action(node.values, node.kind):
            lines.append(f"complete -c ikigai {under if path and node.kind != KEY_VALUES else at} {rest}")
        lines += [
            f"complete -c ikigai -n {_fish('__ikigai_after ' + ' '.join(option.flags))} "
            + _fish_action(option.values, option.kind)
            for option in node.options
            if option.optional
        ]
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
    if kind in NAMES or kind == KEY_VALUES:
        return f"-a {_fish_names(KEYS if kind == KEY_VALUES else kind)}"
    return {FILES: "-F", MENTIONS: "-k -a '(__ikigai_mentions)'"}.get(kind, "")


def _fish_names(kind: str) -> str:
    return _fish(f"(ikigai completion --names {kind} 2>/dev/null)")


def _fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
