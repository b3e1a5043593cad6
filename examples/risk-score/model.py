"""A logistic regression over sets of words, in plain Python: small enough to read, with the same result everywhere."""

import json
import math
from pathlib import Path


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


class Model:
    """Weights by feature, a bias, and the score from which a person is asked."""

    def __init__(self, weights: dict[str, float], bias: float, escalate: float = 0.5):
        self.weights, self.bias, self.escalate = weights, bias, escalate

    def score(self, found: set[str]) -> float:
        """The estimated risk, 0 to 1. A feature that training never saw counts nothing."""
        return sigmoid(self.bias + math.fsum(self.weights.get(feature, 0.0) for feature in sorted(found)))

    def reasons(self, found: set[str], count: int = 3) -> list[str]:
        """The features that raise the score most."""
        raising = [(self.weights.get(feature, 0.0), feature) for feature in found]
        return [feature for weight, feature in sorted(raising, key=lambda x: (-x[0], x[1]))[:count] if weight > 0]

    @classmethod
    def train(cls, rows: list[tuple[set[str], bool]], l2: float, rounds: int = 400, rate: float = 1.0) -> "Model":
        """Full-batch gradient descent; both classes weigh the same; features seen only once are left out."""
        seen: dict[str, int] = {}
        for found, _ in rows:
            for feature in found:
                seen[feature] = seen.get(feature, 0) + 1
        names = sorted(feature for feature, count in seen.items() if count > 1)
        index = {feature: i for i, feature in enumerate(names)}
        attacks = sum(attack for _, attack in rows)
        share = {True: 0.5 / max(attacks, 1), False: 0.5 / max(len(rows) - attacks, 1)}
        data = [([index[f] for f in sorted(found) if f in index], attack) for found, attack in rows]
        weights, bias = [0.0] * len(names), 0.0
        for _ in range(rounds):
            slope, bias_slope = [l2 * weight for weight in weights], 0.0
            for found, attack in data:
                miss = (sigmoid(bias + math.fsum(weights[i] for i in found)) - attack) * share[attack]
                bias_slope += miss
                for i in found:
                    slope[i] += miss
            weights = [weight - rate * s for weight, s in zip(weights, slope)]
            bias -= rate * bias_slope
        return cls({n: round(w, 4) for n, w in zip(names, weights) if round(w, 4)}, round(bias, 4))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(vars(self), indent=1, sort_keys=True) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Model":
        return cls(**json.loads(path.read_text(encoding="utf-8")))
