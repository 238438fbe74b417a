"""A scripted MCP server over standard input and output, by hand: python scripted_server.py MODE [FILE].

good        tools `add` and `wait`, a resource, a prompt, a question; `change` adds a tool and says so
silent      never answers
dead        writes its reason to standard error and exits
flood       floods standard output with words and messages before it answers
huge        answers a call with one message of 40 MiB
escapes     descriptions and results with escape sequences, invisible characters and half a surrogate pair
many        10,000 tools, in pages
strange     a schema that is too long, colliding and unspeakable names
invalid     a schema that is none, a tool without a name, and what is not a tool, beside a good one; likewise resources
odd         results of which a part does not follow the protocol: FILE has the result of each method, as JSON
refused     a parameter that Anthropic refuses, and a schema that OpenAI refuses, beside a good tool
children    starts a daemon in a session of its own and goes on as good, also behind the end of its input; FILE gets
            its pid
changing    the description of its tool is that in FILE; it says so when that has changed
late        begins to answer once there is FILE, and goes on as good
"""

import json
import os
import signal
import subprocess
import sys
import time
from threading import Thread

MODE, FILE = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
PAGE = 600
OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}}


def send(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool(name: str, description: str = "Does it.", schema: object = OBJECT) -> dict:
    return {"name": name, "description": description, "inputSchema": schema}


def tools() -> list[dict]:
    match MODE:
        case "many":
            return [tool(f"tool{n}") for n in range(10_000)]
        case "strange":
            return [
                tool("fine"),
                tool("a b"),
                tool("a_b"),
                tool("x" * 200),
                tool("long", schema={"type": "object", "description": "x" * 70_000}),
                tool("fine"),
            ]
        case "invalid":
            return [tool("no-object", schema={"type": "array"}), {"inputSchema": OBJECT}, 7, tool("fine")]
        case "refused":
            named = {"type": "object", "properties": {"$.xgafv": {"type": "string"}}}
            return [tool("drive", schema=named), tool("dates", schema={**OBJECT, "anyOf": [{}]}), tool("fine")]
        case "odd":
            return [{**tool("act"), "outputSchema": {"type": "object", "required": ["a"]}}]
        case "escapes":
            return [tool("paint", "\x1b[2J\x1b]0;title\x07red\u202eder\U000e0041\ud83d")]
        case "changing":
            with open(FILE) as file:
                return [tool("act", file.read())]
        case _:
            found = [tool("add", "Adds one."), tool("wait", "Waits for ever."), tool("ask", "Asks."), tool("change")]
            return found + [tool("later", "Came later.")] * bool(state["changed"])


state = {"changed": False, "asked": None}


def call(id: int, name: str, arguments: dict) -> None:
    text = f"{name} {json.dumps(arguments)}"
    if MODE == "huge":
        text = "x" * (40 << 20)
    elif MODE == "escapes":
        text = "\x1b[31mred\x1b]52;c;Zm9v\x07\ud83d"
    elif name == "add":
        text = str(arguments["n"] + 1)
    elif name == "wait":
        return
    elif name == "ask":
        state["asked"] = id
        fields = {"type": "object", "properties": {"color": {"type": "string", "enum": ["red", "blue"]}}}
        send({"id": 7, "method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": fields}})
        return
    elif name == "change":
        state["changed"] = True
        send({"method": "notifications/tools/list_changed"})
    send({"id": id, "result": {"content": [{"type": "text", "text": text}]}})


def odd_results() -> dict:
    with open(FILE) as file:
        return json.load(file)


def answer(message: dict) -> None:
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if MODE == "odd" and method in (results := odd_results()):
        send({"id": id, "result": results[method]})
        return
    if method is None:
        text = json.dumps(message.get("result", {}).get("content"))
        send({"id": state["asked"], "result": {"content": [{"type": "text", "text": text}]}})
    elif method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
        about = {"name": "scripted", "version": "1"}
        send({"id": id, "result": {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": about}})
    elif method == "tools/list":
        found, start = tools(), int(params.get("cursor", 0))
        more = {"nextCursor": str(start + PAGE)} if len(found) > start + PAGE else {}
        send({"id": id, "result": {"tools": found[start : start + PAGE], **more}})
    elif method == "tools/call":
        call(id, params["name"], params.get("arguments") or {})
    elif method == "resources/list":
        found = [{"uri": "note://one", "name": "one", "mimeType": "text/plain"}]
        found += [{"uri": "note://two"}, None] * (MODE == "invalid")
        send({"id": id, "result": {"resources": found}})
    elif method == "resources/read":
        send({"id": id, "result": {"contents": [{"uri": params["uri"], "text": "The note says seven."}]}})
    elif method == "prompts/list":
        arguments = [{"name": "topic", "required": True}, {"name": "style"}]
        send(
            {"id": id, "result": {"prompts": [{"name": "explain", "description": "Explains.", "arguments": arguments}]}}
        )
    elif method == "prompts/get":
        text = f"Explain {params['arguments'].get('topic')} {params['arguments'].get('style', 'plainly')}."
        send({"id": id, "result": {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}})
    elif method == "notifications/cancelled" and FILE:
        with open(FILE, "a") as file:
            file.write("cancelled\n")
    elif id is not None:
        send({"id": id, "error": {"code": -32601, "message": f"no {method}"}})


def main() -> None:
    if MODE == "dead":
        sys.stderr.write("first line\nlicense expired\n")
        sys.exit(3)
    if MODE == "killed":
        sys.stderr.write("an earlier line\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    if MODE == "silent":
        time.sleep(3600)
    if MODE == "flood":
        for n in range(200_000):
            sys.stdout.write(f"a line of words, number {n}\n")
        for n in range(500):
            send({"method": "notifications/message", "params": {"level": "info", "data": f"message {n}"}})
    if MODE == "children":
        child = subprocess.Popen(["sleep", "3600"], start_new_session=True, stdin=subprocess.DEVNULL)
        with open(FILE, "w") as file:
            file.write(f"{os.getpid()} {child.pid}")
    if MODE == "late":
        while not os.path.exists(FILE):
            time.sleep(0.02)
    if MODE == "changing":
        Thread(target=watch, daemon=True).start()
    for line in sys.stdin:
        answer(json.loads(line))
    if MODE == "children":
        time.sleep(3600)


def watch() -> None:
    before = tools()
    while True:
        time.sleep(0.02)
        if (now := tools()) != before:
            before = now
            send({"method": "notifications/tools/list_changed"})


if __name__ == "__main__":
    main()
