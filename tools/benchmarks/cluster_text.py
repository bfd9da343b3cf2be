"""Reads and replaces numbers in the text of a cluster file, which keeps its comments."""
import re

SUSTAINED = re.compile(r"(\bsustained\s*\{)([^{}]*)(\})")
COMPARED = re.compile(r"^compared\s*\{[^{}]*\}\n", re.M)
NUMBER = r"[-+]?[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?"


def field(name):
    return re.compile(rf"(\b{name}\s*:\s*)({NUMBER})")


def read_sustained(text, names=None):
    """The numbers of the message `sustained` of a device, by name: all, or these; raises ValueError for one that is not there."""
    message = SUSTAINED.search(text)
    if not message:
        raise ValueError("the cluster file has no message `sustained` in its device")
    found = {}
    for name in names or re.findall(r"(\w+)\s*:", message[2]):
        match = field(name).search(message[2])
        if not match:
            raise ValueError(f"`sustained` has no number {name}")
        found[name] = float(match[2])
    return found


def write_sustained(text, numbers):
    """The text with these numbers in place of its own."""
    message = SUSTAINED.search(text)
    if not message:
        raise ValueError("the cluster file has no message `sustained` in its device")
    inner = message[2]
    for name, value in numbers.items():
        inner, count = field(name).subn(lambda match, value=value: f"{match[1]}{value:.6g}", inner)
        if count != 1:
            raise ValueError(f"`sustained` has {count} numbers {name}")
    return text[:message.start()] + message[1] + inner + message[3] + text[message.end():]


def write_compared(text, runs, mean, sigma, what):
    """The text with a message `compared` of these, in place of the one that it has, else at its end."""
    line = f'compared {{ runs: {runs} mean: {mean:.4f} sigma: {sigma:.4f} what: "{what}" }}\n'
    if COMPARED.search(text):
        return COMPARED.sub(lambda match: line, text, count=1)
    return text.rstrip("\n") + "\n" + line
