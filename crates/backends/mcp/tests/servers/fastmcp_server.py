"""Hook functions on FastMCP."""

from fastmcp import FastMCP

server = FastMCP("fastmcp")


@server.tool()
def bare(event: dict) -> dict:
    return {"decision": "allow", "event": event["event"]}


@server.tool()
def unannotated(event: dict):
    return {"decision": "allow"}


@server.tool()
def optional(event: dict) -> dict | None:
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
    server.run(show_banner=False)
