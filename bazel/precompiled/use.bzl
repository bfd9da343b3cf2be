"""Lets C++ targets use the precompiled headers of this package."""

def precompiled(name, copts, deps):
    """The attributes copts and deps of a target whose sources use a precompiled header.

    Args:
      name: the header, //bazel/precompiled:NAME.
      copts: options of every such target.
      deps: its dependencies.
    Returns:
      Both with what the header needs, unless --define=precompiled_headers=false.
    """
    without = "//bazel:without_precompiled_headers"
    return {
        "copts": copts + select({
            without: [],
            "//conditions:default": ["-include", "bazel/precompiled/%s.h" % name, "-fpch-deps"],
        }),
        "deps": deps + select({
            without: [],
            "//conditions:default": ["//bazel/precompiled:" + name],
        }),
    }
