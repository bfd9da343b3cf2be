"""The default visibility of every target, by top-level folder ("room").

proto <- oneflow_core <- {compiler, actor_runtime} <- planning <- training <- tools
tests/layering proves the same from the sources' #include lines.
"""

_EVERYWHERE = ["//visibility:public"]

_READERS = {
    "actor_runtime": ["actor_runtime", "examples", "planning", "tests", "tools", "training"],
    "compiler": ["compiler", "examples", "planning", "tests", "tools", "training"],
    "oneflow_core": ["actor_runtime", "compiler", "examples", "oneflow_core", "planning", "tests", "tools", "training"],
    "planning": ["planning", "tests", "tools", "training"],
    "proto": ["actor_runtime", "compiler", "examples", "oneflow_core", "planning", "proto", "tests", "tools", "training"],
    "tools": ["tests", "tools"],
    "training": ["examples", "tests", "tools", "training"],
}

def room_visibility():
    """The visibility of a target of the package that is being loaded."""
    room = native.package_name().split("/")[0]
    if room not in _READERS:
        return _EVERYWHERE
    readers = ["//%s:__subpackages__" % reader for reader in _READERS[room]]
    return readers + (["//:__pkg__"] if room == "tools" else [])  # For the root's aliases.
