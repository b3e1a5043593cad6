"""A harness that speaks the Claude Agent SDK's control protocol and does what a file of steps says.

It knows what the real one was seen to do, as far as hosts of sessions depend on it: hooks are asked over its own pipes, a
call is made only where they allow it, and what a model would read stands in the log.
"""

import json
import os
import sys
import threading

steps = json.load(open(sys.argv[1]))
log_path = sys.argv[2]
lock = threading.Lock()
answers = {}
ready = threading.Condition()
count = 0


def log(**what):
    with lock, open(log_path, "a") as file:
        file.write(json.dumps(what) + "\n")


def say(message):
    with lock:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def read():
    for line in sys.stdin:
        message = json.loads(line)
        with ready:
            if message["type"] == "control_response":
                answers[message["response"]["request_id"]] = message["response"]
            elif message["type"] == "user":
                answers.setdefault("prompts", []).append(message["message"]["content"])
            else:
                answers[message["request"]["subtype"]] = message
            ready.notify_all()
    os._exit(0)


def wait(key):
    with ready:
        while key not in answers:
            ready.wait()
        return answers.pop(key)


def prompt():
    with ready:
        while not answers.get("prompts"):
            ready.wait()
        return answers["prompts"].pop(0)


def hook(event, **more):
    global count
    with lock:
        count += 1
        request_id = f"r{count}"
    asked = {"session_id": "s", "transcript_path": "/dev/null", "cwd": os.getcwd(), "hook_event_name": event, **more}
    request = {"subtype": "hook_callback", "callback_id": event, "input": asked, "tool_use_id": more.get("tool_use_id")}
    say({"type": "control_request", "request_id": request_id, "request": request})
    answer = wait(request_id)
    if answer["subtype"] != "success":
        return {"failed": answer["error"]}
    return answer["response"]


def call(step, who):
    tool, arguments, use = step["tool"], step.get("with", {}), step.get("id", f"toolu_{count}")
    about = {"tool_name": tool, "tool_use_id": use, **who}
    answer = hook("PreToolUse", tool_input=arguments, **about)
    inner = answer.get("hookSpecificOutput", {})
    if inner.get("hookEventName") != "PreToolUse" or inner.get("permissionDecision") != "allow":
        log(denied=tool, reads=inner.get("permissionDecisionReason", json.dumps(answer)))
        return
    arguments = inner.get("updatedInput", arguments)
    log(made=tool, arguments=arguments)
    if step.get("dies"):
        os._exit(3)
    result = step.get("result", {"stdout": "done", "stderr": "", "interrupted": False, "isImage": False})
    answer = hook("PostToolUse", tool_input=arguments, tool_response=result, **about)
    inner = answer.get("hookSpecificOutput", {})
    log(result=tool, reads=inner.get("updatedToolOutput", result), stopped=answer.get("continue") is False)


def play(step, who):
    if "parallel" in step:
        threads = [threading.Thread(target=play, args=(one, who)) for one in step["parallel"]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    elif "subagent" in step:
        who = {"agent_id": step["subagent"], "agent_type": "general-purpose"}
        log(subagent=hook("SubagentStart", **who))
        for one in step["steps"]:
            play(one, who)
        log(stopped=hook("SubagentStop", stop_hook_active=False, last_assistant_message="sub done", **who))
    elif "say" in step:
        content = [{"type": "text", "text": step["say"]}]
        say({"type": "assistant", "message": {"role": "assistant", "content": content}, "parent_tool_use_id": None})
    elif "raw" in step:
        with lock:
            sys.stdout.write(step["raw"] * step.get("times", 1) + "\n")
            sys.stdout.flush()
    elif "ask" in step:
        say({"type": "control_request", "request_id": "q", "request": step["ask"]})
        log(answered=wait("q"))
    elif "hang" in step:
        threading.Event().wait()
    elif "exit" in step:
        sys.stderr.write(step.get("words", ""))
        sys.stderr.flush()
        os._exit(step["exit"])
    else:
        call(step, who)


threading.Thread(target=read, daemon=True).start()
log(argv=sys.argv[3:], env=sorted(os.environ), cwd=os.getcwd())
first = wait("initialize")
log(hooks=first["request"]["hooks"])
reply = {"hook_on_failure_supported": True, **steps.get("initialize", {})}
say({"type": "control_response", "response": {"subtype": "success", "request_id": first["request_id"], "response": reply}})
for turn in steps["turns"]:
    log(prompt=prompt())
    for one in turn["steps"]:
        play(one, {})
    failed = turn.get("failed")
    result = {"type": "result", "subtype": failed or "success", "is_error": bool(failed), "result": turn.get("result", "done")}
    say(result)
threading.Event().wait()
