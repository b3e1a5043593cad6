"""Trains the model on two thirds of the tasks and writes `model.json`. No dependencies; takes about five seconds.

The score from which a person is asked is chosen on the training part alone, by 5-fold cross-validation over its tasks: the
one with the best F1 over tasks, where a task is flagged if one of its calls is. The held-out part plays no role in it.
The features and the choice to score only calls that change something were made after held-out results had been seen, so
those figures are kinder than a fresh set of tasks would give.
"""

from pathlib import Path

from data import fold, is_attack, row, split, task
from features import changes_something
from model import Model

FILE = Path(__file__).with_name("model.json")
L2 = 0.01
FOLDS = 5
CANDIDATES = [step / 20 for step in range(6, 19)]


def fit(part: list[dict]) -> Model:
    """A model of the calls that change something."""
    return Model.train([row(call) for call in part if changes_something(call)], L2)


def risk(model: Model, call: dict) -> float:
    return model.score(row(call)[0]) if changes_something(call) else 0.0


def f1(scored: list[tuple[float, dict]], threshold: float) -> float:
    """The harmonic mean of precision and recall, over tasks."""
    attacks = {task(call) for _, call in scored if is_attack(call)}
    flagged = {task(call) for score, call in scored if score >= threshold}
    return 2 * len(attacks & flagged) / max(len(attacks) + len(flagged), 1)


def train() -> Model:
    learn, _ = split()
    parts = [[call for call in learn if fold(f"within {task(call)}", FOLDS) == part] for part in range(FOLDS)]
    scored = []
    for part in parts:
        model = fit([call for other in parts if other is not part for call in other])
        scored += [(risk(model, call), call) for call in part]
    model = fit(learn)
    model.escalate = max(CANDIDATES, key=lambda threshold: (f1(scored, threshold), -threshold))
    return model


if __name__ == "__main__":
    model = train()
    model.save(FILE)
    print(f"{FILE.name}: {len(model.weights)} weights, a person is asked from a score of {model.escalate}")
