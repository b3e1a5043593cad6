"""Rules over events: reading the file, and deciding. No MCP in here.

The strongest decision of all rules that fit counts (deny > escalate > modify > allow), so the file's order never
changes what is let through. A rule that can't be evaluated is an error, never a "does not fit".
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import celpy
import yaml

EVENTS = {"job_start": "input", "pre_tool_call": "arguments", "post_tool_call": "result", "job_end": "output"}
STRONGEST_FIRST = ["deny", "escalate", "modify", "allow"]


class RuleError(Exception):
    """A rules file, or a rule, that can't be used; the message is meant for people."""


@dataclass
class Rule:
    """One rule, with its expressions compiled."""

    name: str
    then: str
    when: celpy.Runner
    events: set[str]
    reason: str | None = None
    set: dict[str, celpy.Runner] = field(default_factory=dict)
    to: celpy.Runner | None = None


class Rules:
    """A rules file, ready to decide."""

    def __init__(self, document: Any):
        if not isinstance(document, dict) or document.keys() != {"default", "rules"}:
            raise RuleError("the file needs the keys `default` and `rules`, and no other")
        self.default = document["default"]
        if self.default not in ("allow", "deny", "escalate"):
            raise RuleError("`default` must be allow, deny or escalate")
        if not isinstance(document["rules"], list):
            raise RuleError("`rules` must be a list")
        self._cel = celpy.Environment()
        self.rules = [self._rule(number, entry) for number, entry in enumerate(document["rules"], 1)]

    @classmethod
    def load(cls, path: Path) -> "Rules":
        """Read a file; every slip is a RuleError that names the rule."""
        try:
            return cls(yaml.safe_load(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise RuleError(str(error)) from error

    def _rule(self, number: int, entry: Any) -> Rule:
        name = entry.get("name") if isinstance(entry, dict) else None
        at = f"rule {number}" + (f" ({name})" if name else "")
        if not isinstance(entry, dict) or not isinstance(name, str):
            raise RuleError(f"{at}: needs a `name`")
        if unknown := entry.keys() - {"name", "events", "when", "then", "reason", "set", "to"}:
            raise RuleError(f"{at}: unknown key {sorted(map(str, unknown))[0]!r}")
        events = entry.get("events", list(EVENTS))
        if not isinstance(events, list) or not events or not set(map(str, events)) <= EVENTS.keys():
            raise RuleError(f"{at}: `events` must list some of {', '.join(EVENTS)}")
        if entry.get("then") not in STRONGEST_FIRST:
            raise RuleError(f"{at}: `then` must be one of {', '.join(STRONGEST_FIRST)}")
        changes = entry.get("set", {})
        if not isinstance(changes, dict) or not all(isinstance(key, str) for key in changes):
            raise RuleError(f"{at}: `set` must map keys of the arguments to expressions")
        if (entry["then"] == "modify") != (bool(changes) != ("to" in entry)):
            raise RuleError(f"{at}: `modify` needs either `set` or `to`; no other decision may have them")
        if (bool(changes) and set(events) != {"pre_tool_call"}) or ("to" in entry and "pre_tool_call" in events):
            raise RuleError(f"{at}: `set` is for pre_tool_call only, `to` for the other events only")
        return Rule(
            name=name,
            then=entry["then"],
            when=self._compile(at, "when", entry.get("when")),
            events=set(events),
            reason=entry.get("reason"),
            set={key: self._compile(at, f"set.{key}", source) for key, source in changes.items()},
            to=self._compile(at, "to", entry["to"]) if "to" in entry else None,
        )

    def _compile(self, at: str, key: str, source: Any) -> celpy.Runner:
        if not isinstance(source, str):
            raise RuleError(f"{at}: `{key}` must be a CEL expression, written as text")
        try:
            return self._cel.program(self._cel.compile(source))
        except celpy.CELParseError as error:
            raise RuleError(f"{at}: `{key}` is not CEL:\n{error}") from error

    def decide(self, event: dict) -> dict:
        """The answer to an event."""
        context = variables(event)
        fitting = [rule for rule in self.rules if event["event"] in rule.events and fits(rule, context)]
        for decision in STRONGEST_FIRST:
            rules = [rule for rule in fitting if rule.then == decision]
            if not rules:
                continue
            answer = {"decision": decision, "rule": rules[0].name}
            if rules[0].reason:
                answer["reason"] = rules[0].reason
            if decision == "modify":
                answer[EVENTS[event["event"]]] = changed(event, rules, context)
            return answer
        if self.default == "allow":
            return {"decision": "allow"}
        return {"decision": self.default, "reason": "no rule allows it"}


def variables(event: dict) -> dict:
    """What the expressions see."""
    value = event.get(EVENTS[event["event"]])
    if event["event"] == "pre_tool_call":
        text = ""
    elif isinstance(value, list):
        text = "\n".join(block["text"] for block in value if block.get("type") == "text")
    else:
        text = value if isinstance(value, str) else json.dumps(value)
    named = {key: event.get(key, "") for key in ("event", "tool", "agent", "job")}
    named |= {"arguments": event.get("arguments", {}), "text": text, "error": event.get("error", False)}
    return {key: celpy.json_to_cel(value) for key, value in named.items()}


def fits(rule: Rule, context: dict) -> bool:
    """Whether the rule is about this event."""
    value = evaluate(rule, rule.when, context)
    if not isinstance(value, bool):
        raise RuleError(f"rule {rule.name}: `when` is neither true nor false")
    return value


def evaluate(rule: Rule, program: celpy.Runner, context: dict) -> Any:
    """The value of an expression, as JSON has it."""
    try:
        value = program.evaluate(context)
    except celpy.CELEvalError as error:
        raise RuleError(f"rule {rule.name}: {error.args[0] if error.args else error}") from error
    return json.loads(json.dumps(value, cls=celpy.CELJSONEncoder))


def changed(event: dict, rules: list[Rule], context: dict) -> Any:
    """The new value, after all rules that modify it, in the file's order."""
    if event["event"] == "pre_tool_call":
        arguments = dict(event["arguments"])
        for rule in rules:
            for key, program in rule.set.items():
                arguments[key] = evaluate(rule, program, context | {"arguments": celpy.json_to_cel(arguments)})
        return arguments
    text = context["text"]
    for rule in rules:
        text = evaluate(rule, rule.to, context | {"text": celpy.json_to_cel(text)})
        if not isinstance(text, str):
            raise RuleError(f"rule {rule.name}: `to` is not a text")
    return text
