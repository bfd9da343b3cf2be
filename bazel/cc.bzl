"""C++ rules: Bazel's own plus this project's warnings, default visibility and test main."""

load("//bazel:rooms.bzl", "room_visibility")
load("//bazel:together.bzl", "together")
load("//bazel/precompiled:use.bzl", "precompiled")

_COPTS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-missing-field-initializers",
    "-Wno-sign-compare",
    "-Wno-unused-parameter",
    # g++ 12 -O2 sees these in correct standard library code.
    "-Wno-array-bounds",
    "-Wno-maybe-uninitialized",
    "-Wno-restrict",
    "-Wno-stringop-overflow",
    "-Wno-stringop-overread",
    # clang does not know all of the above.
    "-Wno-unknown-warning-option",
]

_SANITIZER_DEFAULTS = ["//bazel/sanitizer:defaults"]

def _compilation(header, copts, deps):
    """The attributes copts and deps of a target with its own options and dependencies."""
    if copts:  # The precompiled header was not made by them.
        return {"copts": _COPTS + copts, "deps": deps}
    return precompiled(header, copts = _COPTS, deps = deps)

def oneflow_cc_library(name, srcs = [], copts = [], deps = [], visibility = None, **kwargs):
    """A cc_library, visible by default to the rooms that may depend on its own."""
    kwargs.update(_compilation("for_library", copts, deps))
    native.cc_library(
        name = name,
        srcs = srcs,
        linkstatic = True,
        visibility = visibility or room_visibility(),
        **kwargs
    )

def oneflow_cc_folder(name, srcs = [], exclude = [], folders = [], **kwargs):
    """The library of a folder: its sources and headers, but those of tests.

    Args:
      name: the folder's.
      folders: those below it that belong to it.
      srcs: more of them, such as those that a genrule writes.
      exclude: those of other targets (names or patterns), beside *_test.* and *_for_test.*.
      **kwargs: as of oneflow_cc_library.
    """
    paths = [""] + [folder + "/" for folder in folders]
    others = exclude + [path + other for path in paths for other in ["*_test.cc", "*_for_test.*"]]
    oneflow_cc_library(
        name = name,
        srcs = srcs + together(
            name,
            native.glob([path + "*.cc" for path in paths], exclude = others),
        ),
        hdrs = native.glob([path + "*.h" for path in paths], exclude = others),
        **kwargs
    )

def oneflow_cc_binary(name, copts = [], deps = [], visibility = None, **kwargs):
    """A cc_binary."""
    kwargs.update(_compilation("for_library", copts, deps + _SANITIZER_DEFAULTS))
    native.cc_binary(
        name = name,
        visibility = visibility or room_visibility(),
        **kwargs
    )

def oneflow_cc_test(name, copts = [], deps = [], size = "small", **kwargs):
    """A Catch2 test: `#include <catch2/catch.hpp>` and TEST_CASEs, no main.

    Its size limits the CPU time on each core: 60 seconds (small), 300, 900 or 3600; five times as
    much of wall time.

    Tags that mean something here:
      sanitize  part of the sample that tools/test runs under asan_ubsan
      threads   part of the sample that tools/test runs under tsan
      no-sanitize  never runs under a sanitizer
      full      too long for the default tier: only --config=full (tools/test --full) runs it
      gpu       needs a GPU: only --config=gpu runs it
    """
    kwargs.update(_compilation("for_test", copts, deps + ["//tests:catch_main"]))
    native.cc_test(
        name = name,
        size = size,
        **kwargs
    )
