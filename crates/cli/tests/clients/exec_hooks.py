"""A harness with an exec mode like Codex's: hooks from `-c hooks.EVENT=…`, the prompt on standard input, events as lines of JSON.

It knows what the real one was seen to do, as far as hosts depend on it: a hook is a shell's command with the payload on its standard
input; exit code 2 or a deny with a reason keeps the call from being made; everything else lets it through.
"""

import json
import os
import subprocess
import sys
import tomllib

steps = json.load(open(sys.argv[1]))
log_path = sys.argv[2]
args = sys.argv[3:]
hooks = {}
for flag, value in zip(args, args[1:]):
    if flag == "-c" and value.startswith("hooks."):
        event, rule = value[len("hooks."):].split("=", 1)
        hooks[event] = tomllib.loads(f"v={rule}")["v"][0]["hooks"][0]


def log(**what):
    with open(log_path, "a") as file:
        file.write(json.dumps(what) + "\n")


def say(message):
    print(json.dumps(message), flush=True)


def hook(event, **more):
    asked = {"session_id": "s", "turn_id": "t", "transcript_path": None, "cwd": os.getcwd(), "hook_event_name": event, **more}
    run = subprocess.run(["sh", "-c", hooks[event]["command"]], input=json.dumps(asked).encode(), capture_output=True)
    try:
        answer = json.loads(run.stdout or b"{}")
    except ValueError:
        answer = {}
    return run.returncode, answer, run.stderr.decode()


def call(step, who):
    about = {"tool_name": step["tool"], "tool_use_id": step.get("id", "call_1"), **who}
    arguments = step.get("with", {"command": "ls"})
    code, answer, words = hook("PreToolUse", tool_input=arguments, **about)
    inner = answer.get("hookSpecificOutput", {})
    if (code == 2 and words) or (inner.get("permissionDecision") == "deny" and inner.get("permissionDecisionReason")):
        log(denied=step["tool"], reads=words or inner["permissionDecisionReason"])
        return
    arguments = inner.get("updatedInput", arguments)
    say({"type": "item.started", "item": {"id": "item_0", "type": "command_execution", "status": "in_progress"}})
    log(made=step["tool"], arguments=arguments)
    result = step.get("result", "done")
    code, answer, words = hook("PostToolUse", tool_input=arguments, tool_response=result, **about)
    log(result=step["tool"], reads=answer["reason"] if answer.get("decision") == "block" else result)


log(argv=args, env=sorted(os.environ), prompt=sys.stdin.read(), hooks=hooks)
output = steps.get("output", "done")
for step in steps["steps"]:
    if "exit" in step:
        say({"type": "turn.failed", "error": {"message": "no credit"}})
        os._exit(step["exit"])
    elif "unasked" in step:
        # A call of a client whose hooks were switched off.
        say({"type": "item.started", "item": {"id": "item_1", "type": step["unasked"], "status": "in_progress"}})
        log(unasked=step["unasked"])
    elif "hang" in step:
        import time
        time.sleep(3600)
    elif "subagent" in step:
        who = {"agent_id": step["subagent"], "agent_type": "worker"}
        hook("SubagentStart", **who)
        for one in step["steps"]:
            call(one, who)
        hook("SubagentStop", stop_hook_active=False, last_assistant_message="sub done", **who)
    else:
        call(step, {})
say({"type": "item.completed", "item": {"type": "agent_message", "text": output}})
held = 0
while True:
    _, answer, _ = hook("Stop", stop_hook_active=held > 0, last_assistant_message=output)
    if answer.get("decision") != "block" or held > 5:
        break
    held += 1
    log(held=answer["reason"])
    output = steps.get("again", output)
say({"type": "turn.completed", "usage": {}})
