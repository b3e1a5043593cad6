"""The Model Context Protocol on the standard streams, as far as a hook server needs it: nothing to install.

Each function becomes an MCP function that takes one argument, `event`, and answers with an object. What a function prints
goes to standard error, since standard output belongs to the protocol.
"""

import json
import sys
import traceback

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
INPUT = {"type": "object", "properties": {"event": {"type": "object"}}, "required": ["event"]}


class Refused(Exception):
    """A request that gets a JSON-RPC error: its code and its message."""


def call(functions: dict, params: dict) -> dict:
    """The result of `tools/call`. A function that raises is a failed call, so the manifest's `on_timeout` applies."""
    function = functions.get(params.get("name"))
    if function is None:
        raise Refused(-32602, f"unknown function: {params.get('name')}")
    try:
        answer = function(params.get("arguments", {})["event"])
        text = json.dumps(answer)
    except Exception as error:  # whatever it is, the host must hear of it
        traceback.print_exc()
        return {"content": [{"type": "text", "text": repr(error)}], "isError": True}
    return {"content": [{"type": "text", "text": text}], "structuredContent": answer}


def answer(name: str, functions: dict, method: str, params: dict) -> dict:
    """The result of a request."""
    if method == "initialize":
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[-1],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": name, "version": "1.0.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        listed = [{"name": n, "description": f.__doc__ or n, "inputSchema": INPUT} for n, f in functions.items()]
        return {"tools": listed}
    if method == "tools/call":
        return call(functions, params)
    raise Refused(-32601, f"unknown method: {method}")


def reply(name: str, functions: dict, line: bytes) -> "dict | None":
    """What is sent back for a line; nothing for a notification."""
    try:
        message = json.loads(line)
        request, method = message.get("id"), message["method"]
    except (ValueError, AttributeError, KeyError):
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "not a JSON-RPC request"}}
    if request is None:
        return None
    try:
        return {"jsonrpc": "2.0", "id": request, "result": answer(name, functions, method, message.get("params") or {})}
    except Refused as refused:
        code, text = refused.args
        return {"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": text}}


def serve(name: str, functions: list) -> None:
    """Answers requests until standard input ends."""
    out, sys.stdout = sys.stdout.buffer, sys.stderr
    by_name = {function.__name__: function for function in functions}
    for line in sys.stdin.buffer:
        sent = reply(name, by_name, line) if line.strip() else None
        if sent is not None:
            out.write(json.dumps(sent).encode() + b"\n")
            out.flush()
