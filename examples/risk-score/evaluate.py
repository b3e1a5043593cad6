"""Prints how good the model is on the tasks that it never saw, beside a naive rule: "ask whenever a call changes something"."""

from pathlib import Path

from data import calls, is_attack, split, suite, task
from features import changes_something
from model import Model
from train import fit, risk


def counts(pairs: list[tuple[bool, bool]]) -> dict[str, int]:
    """Confusion counts of (flagged, attack) pairs."""
    return {
        "attacks found": sum(flagged and attack for flagged, attack in pairs),
        "false alarms": sum(flagged and not attack for flagged, attack in pairs),
        "attacks missed": sum(not flagged and attack for flagged, attack in pairs),
        "rightly quiet": sum(not flagged and not attack for flagged, attack in pairs),
    }


def by_task(part: list[dict], flagged: list[bool]) -> list[tuple[bool, bool]]:
    """A task is flagged if one of its calls is."""
    tasks: dict[str, list[bool]] = {}
    for call, flag in zip(part, flagged):
        entry = tasks.setdefault(task(call), [False, is_attack(call)])
        entry[0] = entry[0] or flag
    return [(flag, attack) for flag, attack in tasks.values()]


def precision_and_recall(found: dict[str, int]) -> tuple[float, float]:
    right, alarms, missed = found["attacks found"], found["false alarms"], found["attacks missed"]
    return right / max(right + alarms, 1), right / max(right + missed, 1)


def line(name: str, pairs: list[tuple[bool, bool]]) -> str:
    found = counts(pairs)
    precision, recall = precision_and_recall(found)
    return f"  {name:<22} precision {precision:.2f}  recall {recall:.2f}   " + ", ".join(f"{n} {k}" for k, n in found.items())


def report(title: str, part: list[dict], flagged: list[bool]) -> None:
    print(f"{title}: {len(part)} calls, {sum(map(is_attack, part))} of them in attacks")
    for who, flags in [("model", flagged), ("naive rule", [changes_something(call) for call in part])]:
        print(line(f"{who}, by call", [(flag, is_attack(call)) for call, flag in zip(part, flags)]))
        print(line(f"{who}, by task", by_task(part, flags)))


def held_out(model: Model) -> tuple[list[dict], list[bool]]:
    part = split()[1]
    return part, [risk(model, call) >= model.escalate for call in part]


def unseen_suites(threshold: float) -> tuple[list[dict], list[bool]]:
    """Each suite flagged by a model trained on the other three."""
    everything, part, flagged = calls(), [], []
    for name in sorted({suite(call) for call in everything}):
        model = fit([call for call in everything if suite(call) != name])
        out = [call for call in everything if suite(call) == name]
        part += out
        flagged += [risk(model, call) >= threshold for call in out]
    return part, flagged


if __name__ == "__main__":
    model = Model.load(Path(__file__).with_name("model.json"))
    report("Held-out tasks", *held_out(model))
    report("A suite of tools never seen (trained on the other three)", *unseen_suites(model.escalate))
