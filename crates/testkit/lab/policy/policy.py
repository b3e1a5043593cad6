#!/usr/bin/env python3
"""An MCP server with one hook, `check`. It writes each event to events.jsonl beside it."""

import json
import pathlib
import sys

LOG = pathlib.Path(__file__).with_name("events.jsonl")
CHECK = {"name": "check", "description": "Decides.", "inputSchema": {"type": "object"}}


def decide(event):
    text = json.dumps(event, ensure_ascii=False)
    if event["event"] == "pre_tool_call" and "rewrite-this" in text:
        arguments = json.loads(json.dumps(event["arguments"]).replace("rewrite-this", "rewritten"))
        return {"decision": "modify", "arguments": arguments}
    if event["event"] == "pre_tool_call" and "ask-this" in text:
        return {"decision": "escalate", "reason": "somebody has to look at it"}
    word = {
        "job_start": "deny-prompt",
        "pre_tool_call": "deny-call",
        "post_tool_call": "deny-result",
        "job_end": "deny-output",
    }[event["event"]]
    about = {
        "job_start": event.get("input"),
        "pre_tool_call": event.get("arguments"),
        "post_tool_call": event.get("result"),
        "job_end": event.get("output"),
    }[event["event"]]
    if word in json.dumps(about, ensure_ascii=False):
        return {"decision": "deny", "reason": f"Zoë says “no” to {word} 🚫"}
    return {"decision": "allow"}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "policy", "version": "1"},
        }
    elif message["method"] == "tools/list":
        result = {"tools": [CHECK]}
    elif message["method"] == "tools/call":
        event = message["params"]["arguments"]["event"]
        with LOG.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event, ensure_ascii=False) + "\n")
        answer = decide(event)
        result = {"content": [{"type": "text", "text": json.dumps(answer)}], "structuredContent": answer}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
