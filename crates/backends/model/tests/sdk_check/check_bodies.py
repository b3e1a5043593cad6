#!/usr/bin/env python3
"""Checks golden request bodies against the official SDKs' own request types.

usage: check_bodies.py FOLDER

FOLDER holds insta snapshots named `…body__PROVIDER__CASE.snap`. Each body must be valid for the type that the provider's
SDK takes, and hold no key, at any depth, that the type does not know. Prints a line for each body; exit 1 if one is wrong.
"""

import importlib
import json
import pathlib
import pkgutil
import re
import sys

import anthropic.types
import openai.types
import pydantic
import typing_extensions
from google.genai import types as genai


def close_types(package):
    """Makes every TypedDict of an SDK refuse keys that it does not know."""
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(info.name)
        for value in vars(module).values():
            if typing_extensions.is_typeddict(value):
                value.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)


def read_through(value):
    """pydantic checks an `Iterable[…]` only while it is read."""
    if isinstance(value, dict):
        for inner in value.values():
            read_through(inner)
    elif hasattr(value, "__iter__") and not isinstance(value, (str, bytes)):
        for inner in value:
            read_through(inner)


def sdk(tp):
    adapter = pydantic.TypeAdapter(tp)

    def check(body):
        read_through(adapter.validate_python(body))

    return check


class GeminiBody(pydantic.BaseModel):
    """`models.generateContent` over REST, made of the SDK's own types."""

    model_config = pydantic.ConfigDict(extra="forbid")
    contents: list[genai.Content]
    systemInstruction: genai.Content | None = None
    tools: list[genai.Tool] | None = None
    generationConfig: genai.GenerationConfig | None = None


def camel_only(value, path=""):
    """Over REST keys are camelCase; the SDK's types would take snake_case too."""
    if isinstance(value, dict):
        for key, inner in value.items():
            opaque = key in ("args", "response", "parametersJsonSchema", "responseJsonSchema")
            if "_" in key:
                raise ValueError(f"{path}.{key} is not camelCase")
            if not opaque:
                camel_only(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            camel_only(inner, f"{path}[{i}]")


def gemini(body):
    camel_only(body)
    GeminiBody.model_validate(body)


close_types(anthropic.types)
close_types(openai.types)
# What servers other than OpenAI send with their models' reasoning, and want back.
THEIRS = ("reasoning_content", "reasoning", "reasoning_details", "extra_content")


def without_theirs(value):
    if isinstance(value, dict):
        return {key: without_theirs(inner) for key, inner in value.items() if key not in THEIRS}
    return [without_theirs(inner) for inner in value] if isinstance(value, list) else value


def compatible(body):
    CHECKS["openai_chat"](without_theirs(body))


CHECKS = {
    "anthropic": sdk(anthropic.types.message_create_params.MessageCreateParamsStreaming),
    "openai": sdk(openai.types.responses.response_create_params.ResponseCreateParamsStreaming),
    "openai_chat": sdk(openai.types.chat.completion_create_params.CompletionCreateParamsStreaming),
    "gemini": gemini,
    "gemini3": gemini,
    "compatible": compatible,
}


def canary(provider, body):
    """A wrong key deep in a body must be found, or the check checks nothing."""
    key = next(k for k in ("messages", "input", "contents") if k in body)
    wrong = {**body, key: [*body[key], {**body[key][-1], "nobodyKnowsThis": 1}]}
    try:
        CHECKS[provider](wrong)
    except (pydantic.ValidationError, ValueError):
        return
    raise ValueError("a key that the SDK does not know was not found")


def main():
    folder = pathlib.Path(sys.argv[1])
    failed = 0
    for path in sorted(folder.glob("*body__*.snap")):
        provider, case = re.search(r"body__([a-z0-9_]+?)__([a-z_]+)\.snap$", path.name).groups()
        body = json.loads(path.read_text(encoding="utf-8").split("---\n", 2)[2])
        try:
            CHECKS[provider](body)
            canary(provider, body)
            print(f"ok {provider} {case}")
        except (pydantic.ValidationError, ValueError) as error:
            failed += 1
            print(f"WRONG {provider} {case}: {error}"[:6000])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
