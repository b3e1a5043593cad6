"""The strongest rule counts whatever the order; a rule that can't be evaluated never counts as "does not fit"."""

import itertools
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

from rules import RuleError, Rules  # noqa: E402


def call(tool="a.b", agent="x", **arguments):
    return {"event": "pre_tool_call", "job": "j", "agent": agent, "tool": tool, "arguments": arguments}


def rules(*entries, default="allow"):
    return Rules({"default": default, "rules": list(entries)})


DENY = {"name": "d", "when": "true", "then": "deny", "reason": "no"}
ESCALATE = {"name": "e", "when": "true", "then": "escalate"}
MODIFY = {"name": "m", "events": ["pre_tool_call"], "when": "true", "then": "modify", "set": {"x": "1"}}
ALLOW = {"name": "a", "when": "true", "then": "allow"}


class Deciding(unittest.TestCase):
    def test_the_strongest_counts_in_any_order(self):
        for strongest in range(4):
            entries = [DENY, ESCALATE, MODIFY, ALLOW][strongest:]
            for order in itertools.permutations(entries):
                self.assertEqual(rules(*order).decide(call())["decision"], entries[0]["then"])

    def test_no_rule_fits_means_the_default(self):
        for default in ["allow", "deny", "escalate"]:
            self.assertEqual(rules({**DENY, "when": "false"}, default=default).decide(call())["decision"], default)

    def test_modifications_feed_each_other(self):
        second = {**MODIFY, "name": "n", "set": {"y": "arguments.x + 1"}}
        self.assertEqual(rules(MODIFY, second).decide(call(z="kept"))["arguments"], {"z": "kept", "x": 1, "y": 2})

    def test_a_rule_is_tried_only_on_its_events(self):
        self.assertEqual(rules({**DENY, "events": ["job_end"]}).decide(call())["decision"], "allow")

    def test_a_missing_argument_is_an_error_unless_asked_for_with_has(self):
        self.assertRaises(RuleError, rules({**DENY, "when": "arguments.nope == 1"}).decide, call())
        self.assertEqual(rules({**DENY, "when": "has(arguments.nope)"}).decide(call())["decision"], "allow")

    def test_a_condition_that_is_no_truth_value_is_an_error(self):
        self.assertRaises(RuleError, rules({**DENY, "when": "'yes'"}).decide, call())

    def test_text_blocks_of_a_result_are_read_too(self):
        key = "-----BEGIN OPENSSH PRIVATE KEY-----"
        event = {"event": "post_tool_call", "job": "j", "agent": "x", "tool": "a.b", "arguments": {}, "error": False,
                 "result": [{"type": "text", "text": "ok"}, {"type": "text", "text": key}]}
        self.assertEqual(Rules.load(HERE / "rules.yaml").decide(event)["rule"], "private-keys-stay-here")


class Reading(unittest.TestCase):
    def test_each_slip_is_an_error_that_names_the_rule(self):
        for slip in [
            {"when": "1 +"}, {"when": True}, {"then": "Deny"}, {"then": "block"}, {"events": []}, {"events": ["push"]}, {"events": "job_end"},
            {"wen": "true"}, {"set": {"x": "1"}}, {"then": "modify"}, {"then": "modify", "set": {"x": "1"}},
            {"then": "modify", "set": {"x": "1"}, "to": "'x'"}, {"then": "modify", "to": "text", "events": ["pre_tool_call"]},
        ]:
            with self.subTest(slip=slip), self.assertRaisesRegex(RuleError, r"rule 1 \(d\)"):
                rules({**DENY, **slip})

    def test_the_example_file_is_read(self):
        self.assertEqual(len(Rules.load(HERE / "rules.yaml").rules), 6)


if __name__ == "__main__":
    unittest.main()
