#!/usr/bin/env python3
"""An MCP server with one function, `greet`, that leaves a line in greeted.txt each time it is called."""

import json
import sys

GREET = {
    "name": "greet",
    "description": "Greets somebody.",
    "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "brg", "version": "1"},
        }
    elif message["method"] == "tools/list":
        result = {"tools": [GREET]}
    elif message["method"] == "tools/call":
        name = message["params"]["arguments"].get("name")
        with open("greeted.txt", "a", encoding="utf-8") as file:
            file.write(f"{name}\n")
        result = {"content": [{"type": "text", "text": f"hello {name}, the word is marzipan"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
