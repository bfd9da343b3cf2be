"""Chats of many kinds, for tools/check_chats."""

TOOLS = [{"type": "function",
          "function": {"name": "add", "description": "Adds <two> numbers & more.",
                       "parameters": {"type": "object", "required": ["a", "b"],
                                      "properties": {"a": {"type": "integer", "description": "größer"},
                                                     "b": {"type": "integer", "description": "one"}}}}}]


def user(text):
    return {"role": "user", "content": text}


def answer(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def tool(text):
    return {"role": "tool", "name": "add", "content": text}


def calls(arguments, count=1):
    return [{"type": "function", "id": f"call{i}", "function": {"name": "add", "arguments": arguments}} for i in range(count)]


def make(arguments):
    """Chats by name; `arguments`: of calls of tools, an object or its text."""
    call = calls(arguments)
    chats = {
        "one turn": [user("Hi"), answer("Hello, how are you?")],
        "system": [system("Be brief."), user("Hi"), answer("Yes.")],
        "three turns": [user("Hi"), answer("Hello"), user("And?"), answer("Nothing, really."), user("Ok"), answer("Bye")],
        "system, two turns": [system("Be brief."), user("Hi"), answer("Hello"), user("And?"), answer("Nothing.")],
        "empty answers": [user("Say nothing"), answer(""), user("again"), answer("")],
        "an empty question": [user(""), answer("What?"), user(""), answer("Well?")],
        "unicode": [user("你好 🎉"), answer("Ünïcode ß — 你好\n\nnew"), user("ß\u0301"), answer("🎉🎉 e\u0301")],
        "spaces at the ends": [user(" Hi  "), answer("  Hello  \n"), user("x\n"), answer("\n\nyes ")],
        "code": [user("Write."), answer("```c\nint a = 1;\n\n\treturn a;\n```\n"), user("{{ x }} {% y %}"), answer("{% z %}")],
        "the user last": [user("Hi"), answer("Hello"), user("And?")],
        "no answer": [user("Hi")],
        "reasoning": [user("Hi"), answer("Hello", reasoning_content="I think.")],
        "reasoning, two turns": [user("Hi"), answer("Hello", reasoning_content="I think."), user("And"),
                                 answer("So", reasoning_content="Hm.")],
        "thoughts in the text": [user("Hi"), answer("<think>\nwell\n</think>\n\nHello"), user("And"),
                                 answer("<think>\nhm\n</think>\n\nSo")],
        "a tool": [user("1+2?"), answer("", tool_calls=call), tool("3"), answer("It is 3.")],
        "a tool, two turns": [system("Be brief."), user("1+2?"), answer("", tool_calls=call), tool("3"), answer("It is 3."),
                              user("thanks"), answer("ok")],
        "a tool and text": [user("1+2?"), answer("Let me see.", tool_calls=call), tool("3"), answer("It is 3."), user("and?"),
                            answer("4")],
        "two calls": [user("1+2?"), answer("", tool_calls=calls(arguments, 2)), tool("3"), tool("3"), answer("It is 3.")],
        "a call last": [user("1+2?"), answer("", tool_calls=call)],
    }
    made = {}
    for name, messages in chats.items():
        made[name] = {"messages": messages}
        if "tool" in name or "call" in name:
            made[name]["tools"] = TOOLS
    return made


def in_parts(chat):
    """The chat with texts as lists of parts."""
    messages = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in chat["messages"]]
    return {**chat, "messages": messages}
