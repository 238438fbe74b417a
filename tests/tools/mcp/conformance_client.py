"""A client for the scenarios of @modelcontextprotocol/conformance: ikigai's own servers, driven as a user would.

conformance client --command "PYTHON -m tests.tools.mcp.conformance_client" --scenario NAME

The login page of a scenario sends the browser on at once. The address to which it does is pasted.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.tools.mcp.host_messages import CallTool, GetPrompt, LoginPage, ReadResource, ServerLaunch
from ikigai.tools.mcp.servers import McpServer, McpServers

SERVER = "scenario"
DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""The client metadata document that auth/basic-cimd knows."""


async def main(url: str) -> int:
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key.pem"
        key.write_text(str(context.get("private_key_pem", "")))
        is_client = "client-credentials" in scenario
        launch = ServerLaunch(
            SERVER,
            url=url,
            startup_seconds=15,
            call_seconds=15,
            token_file=str(Path(folder) / "logins.json"),
            client_id=str(context.get("client_id", DOCUMENT if scenario == "auth/basic-cimd" else "")),
            client_secret=str(context.get("client_secret", "")),
            client_key=str(key) if is_client and key.stat().st_size else "",
            issuer=_issuer(url) if is_client else "",
        )
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        servers = McpServers({SERVER: McpServer(launch)}, environment, Path(folder) / "known.json", on_login=follow)
        following.append(servers)
        try:
            servers.start(login=SERVER)
            status = await servers.wait_settled(SERVER)
            print(scenario, status.state, status.detail, [each.tool for each in status.definitions], file=sys.stderr)
            if status.state != "ready":
                return 1
            schemas = {each.tool: json.loads(each.schema) for each in status.definitions}
            calls = [(each["name"], each["arguments"]) for each in context.get("toolCalls", ())]
            for tool, arguments in calls or [(name, _arguments(name, schemas)) for name in schemas]:
                for _ in range(2 if "authorization-server-migration" in scenario else 1):
                    order = CallTool(servers.next_id(), SERVER, tool, json.dumps(arguments))
                    result = await servers.carry_out(order, ask=accept)
                    print(tool, result.failed, result.text[:300], file=sys.stderr)
            for prompt in status.prompts:
                await servers.carry_out(GetPrompt(servers.next_id(), SERVER, prompt.name), ask=accept)
            for resource in status.resources if "no-prefetch" not in scenario else ():
                if not resource.template:
                    await servers.carry_out(ReadResource(servers.next_id(), SERVER, resource.uri), ask=accept)
            await asyncio.sleep(6 if scenario == "sse-retry" else 0)
            return 0
        finally:
            await servers.close()


following: list[McpServers] = []
tasks: list[asyncio.Task[None]] = []


def follow(page: LoginPage) -> None:
    async def visit() -> None:
        async with httpx.AsyncClient() as browser:
            answer = await browser.get(page.url, follow_redirects=False)
        following[0].complete_login(SERVER, answer.headers["location"])

    tasks.append(asyncio.create_task(visit()))


async def accept(question: Question) -> QuestionAnswer:
    """Answer as a user who agrees, skips what has a default, and types a word into the rest."""
    keys = [choice.key for choice in question.choices]
    return QuestionAnswer("s" if "s" in keys else keys[0], "word")


def _issuer(url: str) -> str:
    """Return the authorization server that a user would have registered the client with."""
    place = urlsplit(url)
    metadata = httpx.get(f"{place.scheme}://{place.netloc}/.well-known/oauth-protected-resource{place.path}").json()
    return str(metadata["authorization_servers"][0])


def _arguments(tool: str, schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return arguments for a tool. An object is the schema of another tool: a scenario wants it echoed."""
    schema, other = schemas[tool], next((each for name, each in schemas.items() if name != tool), {})
    examples = {"string": "text", "integer": 3, "number": 5, "boolean": True, "array": [], "object": other}
    found = {}
    for name, field in schema.get("properties", {}).items():
        found[name] = field.get("default", field.get("const", examples.get(str(field.get("type")), "text")))
    return found


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[-1])))
