"""precompiled_header: headers of others that nearly every source reads, parsed once for all.

g++ reads NAME.h.gch where a source's first include is NAME.h and its options agree with those that
NAME.h.gch was made by. So it is compiled as any source is, by this configuration's options, under
the name NAME.cc, and what the compiler calls the object is the precompiled header. NAME.h itself is
empty: where options do not agree, a source is compiled as if there were no precompiled header.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    source = ctx.actions.declare_file(ctx.label.name + ".cc")
    ctx.actions.write(source, "".join(["#include <%s>\n" % header for header in ctx.attr.headers]))
    fallback = ctx.actions.declare_file(ctx.label.name + ".h")
    ctx.actions.write(fallback, "")
    precompiled = ctx.actions.declare_file(ctx.label.name + ".h.gch")

    cc_toolchain = find_cpp_toolchain(ctx)
    _, compiled = cc_common.compile(
        actions = ctx.actions,
        cc_toolchain = cc_toolchain,
        compilation_contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps],
        feature_configuration = cc_common.configure_features(
            ctx = ctx,
            cc_toolchain = cc_toolchain,
            requested_features = ctx.features,
            unsupported_features = ctx.disabled_features,
        ),
        name = ctx.label.name,
        srcs = [source],
        user_compile_flags = ["-x", "c++-header"],
    )
    ctx.actions.symlink(
        output = precompiled,
        target_file = (compiled.pic_objects or compiled.objects)[0],
    )

    # -fpch-deps names the source among what a compilation has read.
    context = cc_common.create_compilation_context(
        headers = depset([source, fallback, precompiled]),
    )
    return [
        DefaultInfo(files = depset([precompiled])),
        CcInfo(compilation_context = context),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "deps": attr.label_list(
            doc = "The libraries that the headers belong to.",
            providers = [CcInfo],
        ),
        "headers": attr.string_list(
            doc = "As in #include <...>. Such as are outside this project.",
            mandatory = True,
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
