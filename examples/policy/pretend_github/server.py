"""Stands in for a GitHub server, so that the example runs offline. It changes nothing and says so."""

from mcp.server import MCPServer

server = MCPServer("pretend-github")


@server.tool()
def push(repository: str, branch: str) -> str:
    """Push the local commits to a branch of a repository."""
    return f"pretended to push to {branch} of {repository}"


@server.tool()
def merge(repository: str, pull_request: int, branch: str = "main") -> str:
    """Merge a pull request into a branch of a repository."""
    return f"pretended to merge #{pull_request} into {branch} of {repository}"


@server.tool()
def read_pull_request(repository: str, pull_request: int) -> str:
    """The title and the diff of a pull request."""
    return f"#{pull_request} of {repository}: Say hello\n\n--- a/hello.txt\n+++ b/hello.txt\n@@ -1 +1 @@\n-hullo\n+hello\n"


if __name__ == "__main__":
    server.run()
