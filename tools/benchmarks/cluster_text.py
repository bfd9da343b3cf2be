"""Reads and replaces numbers in the text of a cluster file, which keeps its comments."""
import re

SUSTAINED = re.compile(r"(\bsustained\s*\{)([^{}]*)(\})")
SYSTEM = re.compile(r"^system \{\n.*?^\}\n", re.M | re.S)
BETWEEN = re.compile(r"^between_systems \{[^{}]*\}\n", re.M)
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


def read_slowdowns(text):
    """The slowdown of each system of the file, by name."""
    names = (re.search(r'\bname:\s*"(\w+)"', message) for message in SYSTEM.findall(text))
    return {name[1]: float(field("slowdown").search(message)[2]) for name, message in zip(names, SYSTEM.findall(text))}


def write_slowdowns(text, slowdowns):
    """The text with other slowdowns of the systems of these names."""
    def replace(match):
        name = re.search(r'\bname:\s*"(\w+)"', match[0])[1]
        if name not in slowdowns:
            return match[0]
        return field("slowdown").sub(lambda old: f"{old[1]}{slowdowns[name]:.4g}", match[0], count=1)

    return SYSTEM.sub(replace, text)


def print_figure(value):
    """Three digits of a large figure, all of those of a small one."""
    return f"{value:.3g}" if value >= 1e6 else f"{round(value)}"


def print_range(least, most):
    return f"{{ least: {print_figure(least)} most: {print_figure(most)} }}"


def print_system(system):
    """A message `system`: a dictionary of its fields, those of its regions included."""
    lines = ["system {", f'  name: "{system["name"]}"', f'  what: "{system["what"]}"', f'  slowdown: {system["slowdown"]:.4g}']
    if "processor_usage" in system:
        lines.append(f'  processor_usage: {system["processor_usage"]}  # {system["processor_usage_source"]}')
    for region in system["regions"]:
        ranges = [f"    {name} {print_range(*region[name])}" for name in ("sequence", "parameters", "devices", "device_tokens")]
        slots = ["    slots { least: %g most: %g }" % region["slots"]] if "slots" in region else []
        lines += ["  region {", *(["    experts: true"] if region["experts"] else []), *slots, *ranges,
                  f'    runs: {region["runs"]} models: {region["models"]} sigma: {region["sigma"]:.3g}', "  }"]
    return "\n".join([*lines, "}", ""])


def write_systems(text, systems):
    """The text with these systems in place of its own, at its end."""
    return SYSTEM.sub("", text).rstrip("\n") + "\n" + "".join(map(print_system, systems))


def write_between(text, sigma, freedom, what):
    """The text with this message `between_systems` in place of its own, at its end."""
    line = f'between_systems {{ sigma: {sigma:.3g} freedom: {freedom} what: "{what}" }}\n'
    return BETWEEN.sub("", text).rstrip("\n") + "\n" + line
