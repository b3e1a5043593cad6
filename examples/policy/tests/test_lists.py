"""The rules of the list: what is not named is denied, and a slip in the list stops the server."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from policy import lists, server  # noqa: E402


def push(repository, branch):
    return lists.check({"event": "pre_tool_call", "arguments": {"repository": repository, "branch": branch}})


class Lists(unittest.TestCase):
    def test_each_branch_gets_its_decision(self):
        for repository, branch, decision in [
            ("acme/website", "feature/hello", "allow"),
            ("acme/website", "main", "escalate"),
            ("acme/website", "release", "deny"),
            ("acme/website", "Main", "deny"),
            ("acme/api", "agent/fix", "allow"),
            ("acme/api", "main", "deny"),
            ("other/api", "agent/fix", "deny"),
            (None, "agent/fix", "deny"),
            ("acme/api", ["agent/fix"], "deny"),
        ]:
            with self.subTest(repository=repository, branch=branch):
                self.assertEqual(push(repository, branch)["decision"], decision)

    def test_the_first_entry_that_fits_a_repository_counts(self):
        self.assertEqual(push("acme/website", "agent/fix")["decision"], "deny")

    def test_a_deny_tells_the_model_what_it_may_do_instead(self):
        self.assertIn("feature/*", push("acme/website", "release")["reason"])

    def test_a_slip_in_the_list_stops_the_server(self):
        for text in ['[[repositories]]\nnme = "a/b"', '[[repositories]]\nname = "a/b"\nfree = "main"', "[[repositories]]"]:
            with self.subTest(text=text), tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "allowed.toml"
                path.write_text(text)
                self.assertRaises(SystemExit, lists.load, path)


class TenLines(unittest.TestCase):
    def test_a_branch_that_is_not_main_passes(self):
        event = {"event": "pre_tool_call", "arguments": {"branch": "maintenance"}}
        self.assertEqual(server.check(event), {"decision": "allow"})


if __name__ == "__main__":
    unittest.main()
