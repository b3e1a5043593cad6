"""Drives `hookwright gateway` with the official Python SDK, and prints what it saw as JSON lines.

    client.py FOLDER COMMAND [ARG …]
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def show(kind, value):
    print(json.dumps({kind: value}), flush=True)


async def main(folder, command, *args):
    server = StdioServerParameters(command=command, args=list(args), cwd=folder)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        listed = await session.list_tools()
        show("tools", [tool.name for tool in listed.tools])
        told = []

        async def progress(done, total, message):
            told.append([done, total, message])

        for name, arguments in [("work.echo", {"a": 0}), ("work.echo", {"a": 1}), ("work.rich", {}), ("work.nothing", {})]:
            result = await session.call_tool(name, arguments, progress_callback=progress)
            show("result", result.model_dump(mode="json", by_alias=True, exclude_none=True))
        show("progress", told)
        many = await asyncio.gather(*[session.call_tool("work.echo", {"n": n}) for n in range(64)])
        show("many", [result.model_dump(by_alias=True)["structuredContent"]["n"] for result in many])


asyncio.run(main(*sys.argv[1:]))
