"""Drives a whole session of an ACP agent with the official Python SDK, and prints what it saw as JSON lines.

    client.py FOLDER COMMAND [ARG …]

A new session is prompted (its question for permission is answered with yes), the mode is changed, the session is closed, loaded
again, prompted once more, listed; everything the SDK's own models accepted is printed as they hold it.
"""

import asyncio
import json
import sys

import acp
from acp import helpers, schema


async def result(kind, value):
    # The SDK takes responses and updates in tasks of their own: what was sent before is printed before.
    await asyncio.sleep(0.5)
    show(kind, value)


def show(kind, value):
    data = value.model_dump(mode="json", by_alias=True, exclude_none=True) if value is not None else None
    print(json.dumps({kind: data}), flush=True)


class Client:
    async def request_permission(self, session_id, tool_call, options, **kwargs):
        show("permission", tool_call)
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **kwargs):
        show("update", update)

    def on_connect(self, conn):
        pass


async def main(folder, command, *args):
    client = Client()
    async with acp.spawn_agent_process(client, command, *args, cwd=folder) as (agent, process):
        await result("initialize", await agent.initialize(protocol_version=acp.PROTOCOL_VERSION))
        session = await agent.new_session(cwd=folder, mcp_servers=[])
        await result("new", session)
        prompt = await agent.prompt(session_id=session.session_id, prompt=[helpers.text_block("Push it.")])
        await result("prompt", prompt)
        await result("mode", await agent.set_session_mode(session_id=session.session_id, mode_id="deny"))
        await result("close", await agent.close_session(session_id=session.session_id))
        await result("load", await agent.load_session(cwd=folder, session_id=session.session_id, mcp_servers=[]))
        prompt = await agent.prompt(session_id=session.session_id, prompt=[helpers.text_block("and again?")])
        await result("prompt", prompt)
        await result("list", await agent.list_sessions())


asyncio.run(main(*sys.argv[1:]))
