"""The recorded calls, and how they are split. Whole tasks go to one side, so no task is both learned from and asked about."""

import hashlib
import json
from pathlib import Path

from features import features

FILE = Path(__file__).with_name("data") / "agentdojo_pre.jsonl"


def calls() -> list[dict]:
    return [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines() if line.strip()]


def task(call: dict) -> str:
    """The task that a call belongs to, e.g. `banking/injection_task_3`."""
    return call["job"]


def suite(call: dict) -> str:
    return call["job"].partition("/")[0]


def is_attack(call: dict) -> bool:
    return call["_label"] == "attack"


def row(call: dict) -> tuple[set[str], bool]:
    """What the model learns from: features of tool and arguments, and the label."""
    return features({"tool": call["tool"], "arguments": call["arguments"]}), is_attack(call)


def fold(name: str, folds: int) -> int:
    """The part that a task belongs to, by a hash of its name: the same on every machine."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % folds


def split(folds: int = 3) -> tuple[list[dict], list[dict]]:
    """Calls to learn from (two thirds of the tasks), and the held-out ones."""
    everything = calls()
    return [c for c in everything if fold(task(c), folds)], [c for c in everything if not fold(task(c), folds)]
