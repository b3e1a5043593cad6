"""What the model sees of a call: its function's name and its arguments, as words.

Names, addresses, account numbers and the like become their kind (`<email>`, `<account>`), for two reasons: a model that
learned "mark.black is the attacker" would look good here and know nothing elsewhere, and the model's file holds no data of
anybody. Neither the job, the agent nor a label is looked at.
"""

import re

KINDS = [
    ("<email>", re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")),
    ("<account>", re.compile(r"\b[A-Z]{2}\d{2}[A-Z0-9]{10,30}\b")),
    ("<url>", re.compile(r"(https?://|www\.)\S+|\b[\w-]+\.(com|org|net)\b\S*")),
    ("<date>", re.compile(r"\b\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2})?\b")),
    ("<number>", re.compile(r"\d+(\.\d+)?")),
]
# Verbs of functions that change something. Calls that only read are not scored: they look alike in attacks and elsewhere.
CHANGING = set("add append cancel create delete invite post remove reschedule reserve schedule send share update".split())
WORD = re.compile(r"<\w+>|[a-z]{3,}")


def text_words(text: str) -> set[str]:
    """The words of a text, lower case, with what names somebody or something replaced by its kind."""
    for kind, pattern in KINDS:
        text = pattern.sub(f" {kind} ", text)
    return set(WORD.findall(text.lower()))


def walk(value, key):
    """Every (key, value) of the arguments, however deep."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from walk(inner, name)
    elif isinstance(value, list):
        yield f"{key}[]", len(value)
        for inner in value:
            yield from walk(inner, key)
    else:
        yield key, value


def changes_something(event: dict) -> bool:
    """Whether the function's name says that it changes something."""
    return event["tool"].rpartition(".")[2].partition("_")[0] in CHANGING


def features(event: dict) -> set[str]:
    """The features of a call, in words that a person can read."""
    function = event["tool"].rpartition(".")[2]
    found = {f"verb:{function.partition('_')[0]}"}
    found |= {f"name:{part}" for part in function.split("_")[1:]}
    for key, value in walk(event["arguments"], "arguments"):
        found.add(f"key:{key}")
        if isinstance(value, bool) or value is None:
            found.add(f"{key}={value}")
        elif isinstance(value, (int, float)):
            # The order of magnitude; an amount of a cent is as telling as one of a million.
            found.add(f"{key}~{'<1' if value < 1 else f'10^{len(str(int(value))) - 1}'}")
        elif isinstance(value, str):
            found |= {f"word:{word}" for word in text_words(value)}
            if len(value) > 200:
                found.add("long text")
    if not event["arguments"]:
        found.add("no arguments")
    return found
