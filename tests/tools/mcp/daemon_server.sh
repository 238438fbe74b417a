#!/bin/sh
# An MCP server that starts fast, with a daemon in a session of its own. Its tool `wait` never answers.
setsid sleep 3600 </dev/null >/dev/null 2>&1 &

answer() {
    id=${line#*\"id\":}
    printf '{"jsonrpc":"2.0","id":%s,%s}\n' "${id%%[,\}]*}" "$1"
}

while read -r line; do
    case $line in
        *'"method":"initialize"'*)
            answer '"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
        *'"method":"tools/list"'*)
            answer '"result":{"tools":[{"name":"wait","inputSchema":{"type":"object"}}]}' ;;
        *'"method":"tools/call"'*) ;;
        *'"id":'*)
            answer '"error":{"code":-32601,"message":"unknown"}' ;;
    esac
done
