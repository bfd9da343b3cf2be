"""The sandbox in which templates run, and what they may take there; render_chats.py follows in the
same script."""

import json
import resource
import signal
from contextvars import ContextVar
from datetime import datetime

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """{% generation %}: notes which characters of the rendered text it encloses."""

    tags = {"generation"}
    tracked = ContextVar("tracked", default=None)

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_track")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _track(self, caller):
        text = caller()
        if (tracked := self.tracked.get()) is not None:
            blocks, spans = tracked
            begin = sum(map(len, blocks))
            spans.append((begin, begin + len(text)))
        return text


class TemplateDict:
    """dict, of which a template reaches nothing but what it makes."""

    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args, **kwargs):
        return dict.fromkeys(*args, **kwargs)


class TemplateNamespace(jinja2.utils.Namespace):
    """namespace, without attributes that begin with an underscore."""

    def __init__(*args, **kwargs):  # a template may say namespace(self=...)
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            TemplateNamespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        TemplateNamespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace holds no {name!r}")


def make_environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    environment.globals["dict"] = TemplateDict()
    environment.globals["namespace"] = TemplateNamespace
    return environment


class TooMuchWork(BaseException):
    """BaseException, so that nothing that runs a template takes it for one of its errors."""


class WorkLimit:
    """Limits of the time of a processor, and of memory, that grow with the line of a chat.

        with limit:
            ...  # TooMuchWork after limit.seconds; MemoryError beyond limit.memory bytes
    """

    def __init__(self, seconds=60, memory=2 << 30):
        self.least_seconds, self.least_memory = seconds, memory
        signal.signal(signal.SIGVTALRM, self._end)
        self.set_line(0)

    def set_line(self, size):
        self.seconds = self.least_seconds + size / 1e5
        self.text = (64 << 20) + 16 * size  # characters
        self.memory = self.least_memory + 32 * size
        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        here = self.memory if most == resource.RLIM_INFINITY else min(self.memory, most)
        resource.setrlimit(resource.RLIMIT_AS, (here, most))

    def __enter__(self):
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds)

    def __exit__(self, *error):
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _end(self, *_):
        raise TooMuchWork(f"takes more than {self.seconds:.3g} s")
