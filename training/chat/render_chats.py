"""Renders chats by a model's own template, and marks the text that counts as labels.

Lines of JSON come in and go out. The first line in says how:
    {"templates": {"default": "...", "tool_use": "..."}, "variables": {"bos_token": "<s>"},
     "special": ["<s>", "</s>"], "stops": ["</s>"], "loss_on": "assistant"}
"loss_on" is "assistant", "completion" or "all"; "prompt" renders what a model is to answer. It is
answered by {} or {"error": ...}. Every further line is a chat, as docs/data.md describes it, and is
answered by one of
    {"text": "...", "spans": [[begin, end], ...], "way": "generation", "ended": true}
where spans are in bytes of UTF-8, and the last ends with a special token or does not, or by
    {"nothing": "why no text of it counts"}
    {"error": "...", "hint": "..."}
or, where it is a prompt, by {"text": "...", "end": "<|im_end|>"}: the token that ends the answer.

Templates are rendered as transformers' apply_chat_template does (5.24), in jinja2's sandbox.
"""

import json
import re
import sys

import jinja2

ROLES = {"system", "developer", "user", "assistant", "tool", "function", "ipython", "observation",
         "context", "document", "documents"}
# Of ShareGPT and those who followed it.
SENDERS = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant",
           "chatgpt": "assistant", "bard": "assistant", "bing": "assistant", "model": "assistant",
           "system": "system", "developer": "developer", "observation": "tool", "tool": "tool",
           "tool_response": "tool", "function_response": "tool", "function_call": "assistant"}
REASONING = ("reasoning_content", "thinking", "reasoning")
# What a generation prompt may write of a thought counts, although it is given: a model that is
# asked without it writes it itself.
THOUGHT = re.compile(r"<think>\s*(?:</think>\s*)?\Z")
# Headers of an answer that count, as they do in trl's templates: a model that answers in several
# messages writes those of the later ones itself.
COUNTED_HEADERS = ("<|start|>assistant", "<｜Assistant｜>", "<｜tool▁outputs▁end｜>")
# Qwen 2.5 writes the line feed after a header with the content, and trl counts it there.
QWEN_2_5 = "{{- '<|im_start|>' + message.role }}"
# Begins what a tool says within the turn of a model (Gemma 4).
TOOL_RESPONSE = "<|tool_response>"
GENERATION = re.compile(r"\{\%-?\s*generation\s*-?\%\}")
LEAVE_OUT = "correct the chat, or leave it out"


class Refusal(Exception):
    """A chat, or a template, that cannot be taken."""

    def __init__(self, what, hint=LEAVE_OUT):
        super().__init__(what)
        self.hint = hint


class Template:
    """The templates of a model, by name."""

    def __init__(self, sources, variables, special=(), stops=(), limit=None):
        self.sources, self.variables, self.stops = sources, variables, stops
        self.limit = limit or WorkLimit()
        self.special = sorted(special, key=len, reverse=True)
        self.compiled = {}
        environment = make_environment()
        for name, source in sources.items():
            try:
                with self.limit:
                    self.compiled[name] = environment.from_string(source)
            except (TooMuchWork, MemoryError) as error:
                what = str(error) or "takes too much memory"
                raise Refusal(f"the template {name!r} {what}",
                              "correct it, or name another folder") from error
            except jinja2.exceptions.TemplateError as error:
                where = f", line {error.lineno}" if getattr(error, "lineno", None) else ""
                raise Refusal(f"the template {name!r} is no Jinja{where}: {error}",
                              "correct it, or name another folder") from error

    def choose(self, tools):
        """As get_chat_template does."""
        if tools is not None and "tool_use" in self.sources:
            return "tool_use"
        if "default" in self.sources:
            return "default"
        names = ", ".join(sorted(self.sources))
        raise Refusal(f"none of its templates is the default one: {names}",
                      "call one of them default")

    def render(self, chat, count=None, prompt=False, spans=None):
        """The text of the first `count` messages; `prompt`: an answer is to begin after it."""
        messages = chat.messages if count is None else chat.messages[:count]
        blocks = []
        token = Generation.tracked.set(None if spans is None else (blocks, spans))
        try:
            values = {**self.variables, **chat.values}
            size, template = 0, self.compiled[self.choose(chat.tools)]
            with self.limit:
                for block in template.generate(
                        messages=messages, tools=chat.tools, documents=chat.documents,
                        add_generation_prompt=prompt, **values):
                    blocks.append(block)
                    size += len(block)
                    if size > self.limit.text:
                        raise TooMuchWork(f"writes more than {self.limit.text} characters")
        except Refusal:
            raise
        except TooMuchWork as error:
            raise Refusal(f"its template {error}", "correct the template") from error
        except MemoryError as error:
            raise Refusal(f"its template needs more than {self.limit.memory >> 20} MiB of memory",
                          "correct the template") from error
        except RecursionError as error:
            raise Refusal("the template calls itself without end") from error
        except Exception as error:  # a template may fail by any error of Python
            kind = "" if isinstance(error, jinja2.exceptions.TemplateError) else (
                type(error).__name__ + ": ")
            raise Refusal(f"its template refuses it: {kind}{error}") from error
        finally:
            Generation.tracked.reset(token)
        return "".join(blocks)


class Chat:
    """Messages, and what else a template reads; the first `given` of them are a prompt."""

    def __init__(self, messages, given=0, tools=None, documents=None, values=None):
        self.messages, self.given = messages, given
        self.tools, self.documents, self.values = tools, documents, values or {}

    def ending(self, turn, message):
        """The chat up to message `turn`, with this one instead of it."""
        return Chat(self.messages[:turn] + [message], self.given, self.tools, self.documents,
                    self.values)

    def assistants(self):
        return [i for i in range(self.given, len(self.messages))
                if self.messages[i]["role"] == "assistant"]


def parsed(value, name):
    """A field that many files hold as text of JSON."""
    if isinstance(value, str):
        if not value.strip():
            return None
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise Refusal(f'"{name}" is text, but no JSON: {error.msg}') from error
    return value


def objects(record, name):
    value = parsed(record.get(name), name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(x, dict) for x in value):
        raise Refusal(f'"{name}" is no list of objects')
    return value


def read_calls(text):
    """The tool calls of a function_call of ShareGPT."""
    calls = parsed(text, "value") if isinstance(text, str) else text
    calls = calls if isinstance(calls, list) else [calls]
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise Refusal('a function_call is no {"name": ..., "arguments": ...}')
    return [{"type": "function",
             "function": {"name": x["name"],
                          "arguments": parsed(x.get("arguments", {}), "arguments")}}
            for x in calls]


def read_message(message, number, template):
    if not isinstance(message, dict):
        raise Refusal(f"message {number} is no object")
    message = {key: value for key, value in message.items() if value is not None}
    if "role" not in message and "from" in message:
        sender = message.pop("from")
        if not isinstance(sender, str) or sender.lower() not in SENDERS:
            raise Refusal(f"message {number} is from {sender!r}, which is no role",
                          f"use one of {', '.join(sorted(SENDERS))}")
        if "value" in message:
            message["content"] = message.pop("value")
        if sender == "function_call":
            message["tool_calls"] = read_calls(message.get("content", ""))
            message["content"] = ""
        message = {"role": SENDERS[sender.lower()], **message}
    role = message.get("role")
    if not isinstance(role, str):
        raise Refusal(f'message {number} has no "role"', "name who speaks: user, assistant, ...")
    named = any(f"'{role}'" in x or f'"{role}"' in x for x in template.sources.values())
    if role not in ROLES and not named:
        raise Refusal(f"message {number} has the role {role!r}, which the template does not name",
                      f"use one of {', '.join(sorted(ROLES))}")
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            if not isinstance(part, dict) or part.get("type", "text") != "text":
                raise Refusal(f"message {number} holds a part that is no text", "leave it out")
    elif content is not None and not isinstance(content, str):
        raise Refusal(f'the "content" of message {number} is neither text nor a list of parts')
    # As transformers does: reasoning by any of its names is found under the names templates read.
    reasoning = next((message[x] for x in REASONING if message.get(x) is not None), None)
    if reasoning is not None:
        message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
    return message


def listed(value, role, name):
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, list):
        return value
    raise Refusal(f'"{name}" is neither text nor a list of messages')


def read_chat(record, template):
    """The chat of a line."""
    if not isinstance(record, dict):
        raise Refusal("is no JSON object")
    given = 0
    if "messages" in record or "conversations" in record:
        name = "messages" if "messages" in record else "conversations"
        messages = parsed(record[name], name)
        if not isinstance(messages, list):
            raise Refusal(f'"{name}" is no list')
    elif "prompt" in record and "completion" in record:
        messages = listed(record["prompt"], "user", "prompt")
        given = len(messages)
        messages = messages + listed(record["completion"], "assistant", "completion")
    else:
        raise Refusal("holds no chat",
                      'a chat is "messages", "conversations", or "prompt" and "completion"')
    messages = [read_message(x, i + 1, template) for i, x in enumerate(messages)]
    if isinstance(record.get("system"), str) and record["system"] and (
            not messages or messages[0]["role"] != "system"):
        messages.insert(0, {"role": "system", "content": record["system"]})
        given += given > 0
    if not messages:
        raise Refusal("holds no message")
    values = record.get("chat_template_kwargs") or {}
    if not isinstance(values, dict):
        raise Refusal('"chat_template_kwargs" is no object')
    return Chat(messages, given, objects(record, "tools"), objects(record, "documents"), values)


def attempt(render):
    """What it renders; None where the template refuses the beginning of a chat."""
    try:
        return render()
    except Refusal:
        return None


def find_header(template, chat, turn):
    """What is rendered before the answer of message `turn`, and the header of it at its end."""
    begins = []
    for prompt in (True, False):
        text = attempt(lambda p=prompt: template.render(chat, turn, p))
        begins.append(text if text is None else THOUGHT.sub("", text))
    asked, told = begins
    header = asked[len(told):] if None not in begins and asked.startswith(told) else ""
    return asked, told, header


def find_begins(template, chat, text, turns):
    """Where the answers of these messages begin; None: what is before one is rendered otherwise."""
    found, begins = [find_header(template, chat, turn) for turn in turns], []
    headers = [header for _, _, header in found if header]
    qwen_2_5 = QWEN_2_5 in template.sources[template.choose(chat.tools)]
    for asked, told, header in found:
        before = next((x for x in (asked, told) if x is not None and text.startswith(x)), None)
        if before is None:
            return None
        begin = len(before)
        # The header of an answer after others of its turn is not in what the model is given then.
        if not header or before is not asked:
            begin += next((len(x) for x in headers if text.startswith(x, begin)), 0)
        begin -= next((len(x) for x in COUNTED_HEADERS if text[:begin].endswith(x)), 0)
        begins.append(begin - (qwen_2_5 and text[:begin].endswith("\n")))
    return begins


def forms(message):
    """An answer, and what templates leave of its reasoning once another follows."""
    yield message
    plain = {key: value for key, value in message.items() if key not in REASONING}
    content = plain.get("content")
    if not isinstance(content, str):
        yield plain
    else:
        content = content.split("</think>")[-1]
        yield {**plain, "content": content}
        yield {**plain, "content": "\n" + content}


def find_end(template, chat, text, turn):
    """Where the answer of message `turn` ends: with the token that ends its turn."""
    if turn + 1 == len(chat.messages):
        return len(text)
    upto, ends = None, template.stops
    for answer in forms(chat.messages[turn]):
        rendered = attempt(lambda x=answer: template.render(chat.ending(turn, x)))
        if rendered is not None and text.startswith(rendered):
            upto, ended = rendered, rendered.rstrip().endswith(tuple(template.stops))
            break
        # A token that ends a text (Phi 3), or its last answer (gpt-oss), is not in the middle of it.
        last = rendered and next((x for x in template.special if rendered.endswith(x)), None)
        if last and text.startswith(rendered[:-len(last)]):
            upto, ends = rendered[:-len(last)], template.special
            said = chat.ending(turn, {**answer, "content": "x"})
            rendered = attempt(lambda: template.render(said))
            ended = rendered is None or rendered[:-len(last)].rstrip().endswith(tuple(template.special))
            break
    if upto is None:
        return None
    # Where no token has ended the answer, it is the next: another one, or the header of what follows
    # where a model stops by it (GLM 4).
    end = len(upto)
    return end if ended else end + next((len(x) for x in ends if text.startswith(x, end)), 0)


def find_spans(template, chat, text, turns):
    """The spans of the answers of these messages; None: one of them is rendered otherwise before."""
    begins, spans = find_begins(template, chat, text, turns), []
    for begin, turn in zip(begins or (), turns):
        end = find_end(template, chat, text, turn)
        if end is None or end < begin:
            return None
        for what in (" ", TOOL_RESPONSE):  # these follow an answer
            if text.endswith(what, begin, end):
                end -= len(what)
        spans.append((begin, end))
    return spans or None


def mark(template, chat, loss_on):
    """The text of a chat, the spans that count, and how they were found."""
    tagged = GENERATION.search(template.sources[template.choose(chat.tools)])
    spans = []
    text = template.render(chat, spans=spans)
    if loss_on == "all":
        return text, [(0, len(text))], "all"
    turns = chat.assistants()
    if not turns:
        return text, [], "generation" if tagged else "prefixes"
    if loss_on == "completion":
        first = chat.given or turns[-1]
        begins = find_begins(template, chat, text, [first])
        end = len(text) if chat.given else find_end(template, chat, text, first)
        if begins is not None and end is not None:
            return text, [(begins[0], end)], "completion"
        raise Refusal("what its template makes of the messages before the last answer does not "
                      "begin what it makes of all",
                      "use a template that does, or --loss_on=all")
    if tagged:
        if chat.given:
            if (begins := find_begins(template, chat, text, [chat.given])) is None:
                raise Refusal("what its template makes of the prompt does not begin what it makes "
                              "of all", "give it as messages")
            spans = [x for x in spans if x[1] > begins[0]]
        return text, spans, "generation"
    if spans := find_spans(template, chat, text, turns):
        return text, spans, "prefixes"
    last = turns[-1]
    if last + 1 < len(chat.messages):  # what follows the last answer counts nothing
        chat = chat.ending(last, chat.messages[last])
        text = template.render(chat)
    if spans := find_spans(template, chat, text, [last]):
        return text, spans, "last"
    raise Refusal("which of its text the assistant wrote is not known: its template has no "
                  "{% generation %}, and what it makes of the messages before an answer does not "
                  "begin what it makes of all",
                  "mark the answers in the template by {% generation %}, or train on all of it by "
                  "--loss_on=all")


def find_stop(template, chat):
    """The special token that follows the answer to a chat; empty: none does."""
    said = "an answer"
    answered = chat.ending(len(chat.messages), {"role": "assistant", "content": said})
    text = attempt(lambda: template.render(answered)) or ""
    rest = text[text.rfind(said) + len(said):].lstrip() if said in text else ""
    return next((x for x in template.special if rest.startswith(x)), "")


def in_bytes(text, spans):
    """Positions of characters as those of bytes."""
    out, at, size = [], 0, 0
    for begin, end in sorted(spans):
        for position in (begin, end):
            position = max(position, at)
            size += len(text[at:position].encode())
            at = position
            out.append(size)
    return [list(x) for x in zip(out[::2], out[1::2]) if x[0] < x[1]]


def answer(template, line, loss_on):
    template.limit.set_line(len(line))
    try:
        chat = read_chat(json.loads(line.rstrip(b"\n")), template)
        if loss_on == "prompt":
            return {"text": template.render(chat, prompt=True), "end": find_stop(template, chat)}
        text, spans, way = mark(template, chat, loss_on)
        spans = in_bytes(text, spans)
        if not spans:
            return {"nothing": "the assistant says nothing in it"}
        end = text.encode()[:spans[-1][1]].decode(errors="replace").rstrip()
        ended = loss_on == "all" or any(end.endswith(x) for x in template.special)
        return {"text": text, "spans": spans, "way": way, "ended": ended}
    except Refusal as refusal:
        return {"error": str(refusal), "hint": refusal.hint}
    except UnicodeEncodeError:
        what = "holds half of a surrogate pair, which is no character"
    except RecursionError:
        what = "its values are nested too deep"
    except json.JSONDecodeError as error:
        what = f"is no JSON: {error.msg} at character {error.pos + 1}"
    except ValueError as error:
        what = f"is no JSON: {error}"
    return {"error": what, "hint": LEAVE_OUT}


def main():
    def write(value):
        text = json.dumps(value, ensure_ascii=False)
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sys.stdout.buffer.flush()

    lines = iter(sys.stdin.buffer)
    settings = json.loads(next(lines))
    try:
        template = Template(settings["templates"], settings["variables"], settings["special"],
                            settings["stops"], WorkLimit(settings.get("seconds", 60)))
    except Refusal as refusal:
        write({"error": str(refusal), "hint": refusal.hint})
        return
    write({})
    for line in lines:
        write(answer(template, line, settings["loss_on"]))


if __name__ == "__main__":
    main()
