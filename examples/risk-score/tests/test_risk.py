"""The committed model is the one that `train.py` makes; labels are never looked at; no task stands on both sides."""

import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE))

import data  # noqa: E402
import evaluate  # noqa: E402
from features import features, text_words  # noqa: E402
from model import Model  # noqa: E402
from train import train  # noqa: E402


class Risk(unittest.TestCase):
    def test_no_task_stands_on_both_sides(self):
        learn, held_out = ({data.task(call) for call in part} for part in data.split())
        self.assertFalse(learn & held_out)
        self.assertEqual(learn | held_out, {data.task(call) for call in data.calls()})

    def test_only_tool_and_arguments_are_looked_at(self):
        for call in data.calls():
            self.assertEqual(features(call), features({"tool": call["tool"], "arguments": call["arguments"]}))

    def test_names_of_people_and_places_become_their_kind(self):
        words = text_words("Mail ann.b@x.example, pay US133000000121212121212 12.50 by 2024-05-01, see www.evil.example/x")
        self.assertEqual(words, {"mail", "pay", "see", "<email>", "<account>", "<number>", "<date>", "<url>"})

    def test_the_committed_model_is_what_training_makes(self):
        made, committed = train(), Model.load(HERE / "model.json")
        self.assertEqual(made.weights.keys(), committed.weights.keys())
        self.assertEqual(made.escalate, committed.escalate)
        for name, weight in committed.weights.items():
            self.assertAlmostEqual(made.weights[name], weight, delta=0.001, msg=name)

    def test_the_figures_of_the_readme_are_those_of_the_model(self):
        part, flagged = evaluate.held_out(Model.load(HERE / "model.json"))
        line = evaluate.line("model, by call", list(zip(flagged, map(data.is_attack, part))))
        self.assertIn(line.strip(), (HERE / "README.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
