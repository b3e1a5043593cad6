"""The hooks of the plugin {{name}}. Change `check`; `mcp_stdio.py` speaks the protocol."""

from mcp_stdio import serve


def check(event: dict) -> dict:
    """Ask a person before anything is done to the branch `main`."""
    if event["event"] == "pre_tool_call" and event["arguments"].get("branch") == "main":
        return {"decision": "escalate", "reason": f"{event['tool']} on main"}
    return {"decision": "allow"}


if __name__ == "__main__":
    serve("{{name}}", [check])
