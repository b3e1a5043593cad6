#!/usr/bin/env python3
"""A scripted model on 127.0.0.1, for real coding agents that are tested without a network.

It speaks Anthropic Messages, OpenAI Responses and Chat Completions, and Gemini, as JSON and as server-sent events.
usage: model.py PORT SCENARIO.json LOG.jsonl

SCENARIO is {"routes": [{"match": "<regex over what the user said>", "turns": [[item, ...], ...]}], "default": "text"};
an item is {"text": "..."} or {"tool": "Bash", "input": {...}}. Which turn it is, is told by how often the model has spoken
in the request, so the server keeps nothing. Each request goes to LOG: what the model was told.
"""
import json, re, sys, time, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
PORT, SCN, LOG = int(sys.argv[1]), json.load(open(sys.argv[2])), sys.argv[3]
T0 = time.time()
def log(**kw):
    with open(LOG, "a") as f: f.write(json.dumps({"t": round(time.time()-T0, 4), **kw}) + "\n")
def pick(user_text, n, has_tools):
    if not has_tools: return [{"text": SCN.get("notools", "ok")}]
    for r in SCN["routes"]:
        if re.search(r["match"], user_text, re.S):
            t = r["turns"]
            return t[n] if n < len(t) else [{"text": SCN.get("default", "done")}]
    return [{"text": SCN.get("default", "done")}]
def flat(c):
    if isinstance(c, str): return c
    if isinstance(c, list): return "\n".join(flat(x) for x in c)
    if isinstance(c, dict): return c.get("text") or flat(c.get("content") or "") 
    return ""
class H(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *a): pass
    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            out = b""
            while True:
                n = int(self.rfile.readline().split(b";")[0], 16)
                out += self.rfile.read(n); self.rfile.readline()
                if n == 0: return out
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))
    def send(self, code, ctype, data):
        if isinstance(data, str): data = data.encode()
        self.send_response(code); self.send_header("content-type", ctype)
        self.send_header("content-length", str(len(data))); self.send_header("request-id", "req_fake")
        self.end_headers()
        if self.command != "HEAD": self.wfile.write(data)
    def js(self, obj, code=200): self.send(code, "application/json", json.dumps(obj))
    def sse(self, evs, named=True):
        s = "".join((f"event: {e['type']}\n" if named else "") + "data: " + (e if isinstance(e, str) else json.dumps(e)) + "\n\n" for e in evs)
        self.send(200, "text/event-stream", s)
    def do_HEAD(self): log(m="HEAD", path=self.path); self.send(200, "text/plain", "")
    def do_GET(self):
        log(m="GET", path=self.path)
        p = self.path.split("?")[0]
        if p.endswith("/models"): return self.js({"object": "list", "data": [{"id": "fake-model", "object": "model", "owned_by": "fake"}], "models": []})
        self.js({"error": {"type": "not_found_error", "message": "fake"}}, 404)
    def do_POST(self):
        raw = self.body()
        try: b = json.loads(raw or b"{}")
        except Exception: b = {"_raw": len(raw)}
        p = self.path.split("?")[0]
        log(m="POST", path=self.path, hdr={k: v for k, v in self.headers.items() if k.lower() in ("x-api-key","authorization","user-agent","anthropic-beta","x-goog-api-key")}, body=b)
        if p.endswith("/messages/count_tokens"): return self.js({"input_tokens": 100})
        if p.endswith("/messages"): return self.anthropic(b)
        if p.endswith("/responses"): return self.oai_responses(b)
        if p.endswith("/chat/completions"): return self.chat(b)
        if p.endswith(":countTokens"): return self.js({"totalTokens": 10})
        if "enerateContent" in p: return self.gemini(b, "stream" in p)
        self.js({"error": {"type": "not_found_error", "message": "fake"}}, 404)
    do_PUT = do_POST
    # ---------- Anthropic
    def anthropic(self, b):
        ms = b.get("messages", [])
        ut = "\n".join(flat(m["content"]) for m in ms if m["role"] == "user" )
        n = sum(1 for m in ms if m["role"] == "assistant")
        items = pick(ut, n, bool(b.get("tools")))
        content = [{"type": "text", "text": i["text"]} if "text" in i else
                   {"type": "tool_use", "id": i.get("id") or "toolu_" + uuid.uuid4().hex[:20], "name": i["tool"], "input": i["input"]} for i in items]
        stop = "tool_use" if any(c["type"] == "tool_use" for c in content) else "end_turn"
        msg = {"id": "msg_" + uuid.uuid4().hex[:20], "type": "message", "role": "assistant", "model": b.get("model", "fake"),
               "content": content, "stop_reason": stop, "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}}
        log(answer=content, model=b.get("model"))
        if not b.get("stream"): return self.js(msg)
        ev = [{"type": "message_start", "message": {**msg, "content": [], "stop_reason": None}}]
        for k, c in enumerate(content):
            if c["type"] == "text":
                ev += [{"type": "content_block_start", "index": k, "content_block": {"type": "text", "text": ""}},
                       {"type": "content_block_delta", "index": k, "delta": {"type": "text_delta", "text": c["text"]}}]
            else:
                ev += [{"type": "content_block_start", "index": k, "content_block": {**c, "input": {}}},
                       {"type": "content_block_delta", "index": k, "delta": {"type": "input_json_delta", "partial_json": json.dumps(c["input"])}}]
            ev += [{"type": "content_block_stop", "index": k}]
        ev += [{"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
        self.sse(ev)
    # ---------- OpenAI Responses
    def oai_responses(self, b):
        inp = b.get("input", [])
        if isinstance(inp, str): inp = [{"type": "message", "role": "user", "content": inp}]
        ut = "\n".join(flat(m.get("content")) for m in inp if m.get("role") == "user")
        n = 0; prev = None       # one model turn = a run of consecutive assistant-made items
        for m in inp:
            mine = m.get("type") in ("function_call", "custom_tool_call", "reasoning", "local_shell_call") or (m.get("type") == "message" and m.get("role") == "assistant")
            if mine and not prev: n += 1
            prev = mine
        items = pick(ut, n, bool(b.get("tools")))
        rid = "resp_" + uuid.uuid4().hex[:16]; out = []
        for i in items:
            if "text" in i: out.append({"type": "message", "id": "msg_" + uuid.uuid4().hex[:12], "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": i["text"], "annotations": []}]})
            elif "custom" in i: out.append({"type": "custom_tool_call", "id": "ctc_" + uuid.uuid4().hex[:12], "call_id": i.get("id") or "call_" + uuid.uuid4().hex[:12], "name": i["custom"], "input": i["input"], "status": "completed"})
            else: 
                o = {"type": "function_call", "id": "fc_" + uuid.uuid4().hex[:12], "call_id": i.get("id") or "call_" + uuid.uuid4().hex[:12], "name": i["tool"], "arguments": json.dumps(i["input"]), "status": "completed"}
                if "namespace" in i: o["namespace"] = i["namespace"]
                out.append(o)
        usage = {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15}
        resp = {"id": rid, "object": "response", "created_at": int(time.time()), "status": "completed", "model": b.get("model"), "output": out, "usage": usage}
        log(answer=out, model=b.get("model"))
        if not b.get("stream"): return self.js(resp)
        ev = [{"type": "response.created", "response": {**resp, "status": "in_progress", "output": []}}]
        for k, o in enumerate(out):
            ev += [{"type": "response.output_item.added", "output_index": k, "item": o}, {"type": "response.output_item.done", "output_index": k, "item": o}]
        ev += [{"type": "response.completed", "response": resp}]
        self.sse(ev)
    # ---------- OpenAI Chat Completions
    def chat(self, b):
        ms = b.get("messages", [])
        ut = "\n".join(flat(m.get("content")) for m in ms if m["role"] == "user")
        n = sum(1 for m in ms if m["role"] == "assistant")
        items = pick(ut, n, bool(b.get("tools")))
        text = "".join(i["text"] for i in items if "text" in i) or None
        tc = [{"index": k, "id": i.get("id") or "call_" + uuid.uuid4().hex[:12], "type": "function", "function": {"name": i["tool"], "arguments": json.dumps(i["input"])}} for k, i in enumerate(x for x in items if "tool" in x)]
        fin = "tool_calls" if tc else "stop"; cid = "chatcmpl-" + uuid.uuid4().hex[:12]
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        log(answer=items, model=b.get("model"))
        m = {"role": "assistant", "content": text}
        if tc: m["tool_calls"] = tc
        base = {"id": cid, "created": int(time.time()), "model": b.get("model")}
        if not b.get("stream"): return self.js({**base, "object": "chat.completion", "choices": [{"index": 0, "message": m, "finish_reason": fin}], "usage": usage})
        c = {**base, "object": "chat.completion.chunk"}
        self.sse([{**c, "choices": [{"index": 0, "delta": m, "finish_reason": None}]}, {**c, "choices": [{"index": 0, "delta": {}, "finish_reason": fin}]}, {**c, "choices": [], "usage": usage}, "[DONE]"], named=False)
    # ---------- Gemini
    def gemini(self, b, stream):
        cs = b.get("contents", [])
        cs = cs if isinstance(cs, list) else [cs]
        ut = "\n".join(flat(p) for c in cs if c.get("role") == "user" for p in c.get("parts", []))
        n = sum(1 for c in cs if c.get("role") == "model" and any("functionCall" in p for p in c.get("parts", [])))
        items = pick(ut, n, bool(b.get("tools")) and any(t.get("functionDeclarations") for t in b["tools"]))
        parts = [{"text": i["text"]} if "text" in i else {"functionCall": {"name": i["tool"], "args": i["input"]}} for i in items]
        if (b.get("generationConfig") or {}).get("responseJsonSchema") or (b.get("generationConfig") or {}).get("responseMimeType") == "application/json":
            parts = [{"text": json.dumps(SCN.get("json_answer", {}))}]
        log(answer=parts)
        r = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}], "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "modelVersion": "fake"}
        if stream: return self.send(200, "text/event-stream", "data: " + json.dumps(r) + "\r\n\r\n")
        self.js(r)
ThreadingHTTPServer(("127.0.0.1", PORT), H).serve_forever()
