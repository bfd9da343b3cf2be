"""C++ rules: Bazel's own plus this project's warnings, default visibility and test main."""

load("//bazel:rooms.bzl", "room_visibility")

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

def oneflow_cc_library(name, copts = [], visibility = None, **kwargs):
    """A cc_library, visible by default to the rooms that may depend on its own."""
    native.cc_library(
        name = name,
        copts = _COPTS + copts,
        linkstatic = True,
        visibility = visibility or room_visibility(),
        **kwargs
    )

def oneflow_cc_binary(name, copts = [], deps = [], visibility = None, **kwargs):
    """A cc_binary."""
    native.cc_binary(
        name = name,
        copts = _COPTS + copts,
        deps = deps + _SANITIZER_DEFAULTS,
        visibility = visibility or room_visibility(),
        **kwargs
    )

def oneflow_cc_test(name, copts = [], deps = [], size = "small", **kwargs):
    """A Catch2 test: `#include <catch2/catch.hpp>` and TEST_CASEs, no main.

    Tags that mean something here:
      sanitize  part of the sample that tools/test runs under asan_ubsan
      threads   part of the sample that tools/test runs under tsan
      no-sanitize  never runs under a sanitizer
      full      too long for the default tier: only --config=full (tools/test --full) runs it
      gpu       needs a GPU: only --config=gpu runs it
    """
    native.cc_test(
        name = name,
        size = size,
        copts = _COPTS + copts,
        deps = deps + ["//tests:catch_main"],
        **kwargs
    )
