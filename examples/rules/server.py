"""A rule engine as a hook: `rules.yaml` decides."""

from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from rules import RuleError, Rules

server = MCPServer("rules")


@server.tool()
def check(event: dict) -> dict[str, Any]:
    """Decide on an event by the rules."""
    try:
        return RULES.decide(event)
    except RuleError as error:
        # A failure, not an answer: the manifest's `on_timeout` applies, which is deny where it says nothing.
        raise ToolError(str(error)) from error


if __name__ == "__main__":
    try:
        RULES = Rules.load(Path(__file__).with_name("rules.yaml"))
    except RuleError as error:
        raise SystemExit(f"rules.yaml: {error}") from error
    server.run()
