"""Hook functions on the official Python SDK: one for each way in which an answer may be returned."""

from typing import Any, TypedDict

from mcp.server import MCPServer
from pydantic import BaseModel

server = MCPServer("mcp-sdk")


class Decision(TypedDict):
    decision: str


class Answer(BaseModel):
    decision: str
    reason: str


@server.tool()
def bare(event: dict) -> dict:
    return {"decision": "allow", "event": event["event"]}


@server.tool()
def keyed(event: dict) -> dict[str, Any]:
    return {"decision": "allow"}


@server.tool()
def typed(event: dict) -> Decision:
    return {"decision": "allow"}


@server.tool()
def model(event: dict) -> Answer:
    return Answer(decision="deny", reason="no")


@server.tool()
def optional(event: dict) -> dict[str, Any] | None:
    return {"decision": "allow"}


@server.tool()
def text(event: dict) -> str:
    return '{"decision":"allow"}'


@server.tool()
def nothing(event: dict) -> None:
    return None


@server.tool()
def raises(event: dict) -> dict:
    raise RuntimeError("the cause")


if __name__ == "__main__":
    server.run()
