"""The check of `server.py`, grown up: repositories and branches come from a list, `allowed.toml`.

To use it, say `mcp: ["python", "-m", "policy.lists"]` in plugin.yaml.
"""

import tomllib
from fnmatch import fnmatchcase
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("policy")


def load(path: Path) -> list[dict]:
    """Read the list. A slip in it stops the server, so that its hooks fail closed instead of allowing too much."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("repositories", [])
    for number, entry in enumerate(entries, 1):
        unknown = entry.keys() - {"name", "free", "ask"}
        if unknown or not isinstance(entry.get("name"), str):
            raise SystemExit(f"{path}: entry {number}: needs `name`, may have `free` and `ask`; found {sorted(entry)}")
        for key in ("free", "ask"):
            patterns = entry.setdefault(key, [])
            if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
                raise SystemExit(f"{path}: entry {number}: `{key}` must be a list of branch patterns")
    return entries


def decide(entries: list[dict], repository: object, branch: object) -> dict:
    """Decide on a push or merge. What is not named is denied."""
    if not isinstance(repository, str) or not isinstance(branch, str):
        return {"decision": "deny", "reason": "the call does not say which repository and branch it changes"}
    entry = next((entry for entry in entries if fnmatchcase(repository, entry["name"])), None)
    if entry is None:
        return {"decision": "deny", "reason": f"agents may not push to {repository}"}
    if any(fnmatchcase(branch, pattern) for pattern in entry["free"]):
        return {"decision": "allow"}
    if any(fnmatchcase(branch, pattern) for pattern in entry["ask"]):
        return {"decision": "escalate", "reason": f"a push to {branch} of {repository}"}
    return {"decision": "deny", "reason": f"on {repository} agents may push only to {', '.join(entry['free'] + entry['ask'])}"}


ALLOWED = load(Path(__file__).with_name("allowed.toml"))


@server.tool()
def check(event: dict) -> dict:
    """Decide on a call or a job."""
    if event["event"] == "pre_tool_call":
        return decide(ALLOWED, event["arguments"].get("repository"), event["arguments"].get("branch"))
    if event["event"] == "job_end":
        return {"decision": "modify", "output": event["output"] + "\n\nChecked by policy."}
    return {"decision": "allow"}


if __name__ == "__main__":
    server.run()
