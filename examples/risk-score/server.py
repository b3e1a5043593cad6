"""A risk score as a hook: a small model of our own scores each call; from a threshold on, a person is asked."""

from pathlib import Path
from typing import Any

from features import changes_something, features
from mcp.server import MCPServer
from model import Model

MODEL = Model.load(Path(__file__).with_name("model.json"))
server = MCPServer("risk-score")


def decide(event: dict) -> dict[str, Any]:
    """The answer to a call, with its score."""
    if not changes_something(event):
        return {"decision": "allow"}
    found = features(event)
    score = MODEL.score(found)
    answer = {"decision": "allow", "score": round(score, 3)}
    if score >= MODEL.escalate:
        answer["decision"] = "escalate"
        answer["reason"] = f"risk {score:.2f}, because of: {', '.join(MODEL.reasons(found))}"
    return answer


@server.tool()
def score(event: dict) -> dict[str, Any]:
    """Decide on a call by its risk score."""
    return decide(event)


if __name__ == "__main__":
    server.run()
