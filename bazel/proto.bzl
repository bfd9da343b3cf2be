"""Protobuf and gRPC with the system's protoc. Import paths start at the workspace's root."""

load("//bazel:rooms.bzl", "room_visibility")
load("//bazel/precompiled:use.bzl", "precompiled")

ProtoSourcesInfo = provider(
    doc = "The .proto files of a library.",
    fields = {
        "direct": "list of its own files",
        "transitive": "depset of its own and its dependencies' files",
    },
)

def _proto_sources_impl(ctx):
    return [
        DefaultInfo(files = depset(ctx.files.srcs)),
        ProtoSourcesInfo(
            direct = ctx.files.srcs,
            transitive = depset(
                ctx.files.srcs,
                transitive = [dep[ProtoSourcesInfo].transitive for dep in ctx.attr.deps],
            ),
        ),
    ]

_proto_sources = rule(
    implementation = _proto_sources_impl,
    attrs = {
        "deps": attr.label_list(providers = [ProtoSourcesInfo]),
        "srcs": attr.label_list(allow_files = [".proto"], mandatory = True),
    },
)

def _generated_file(ctx, source, extension):
    """Declares what protoc writes for `source` with the workspace's root as its import path."""
    in_package = source.short_path[len(ctx.label.package):].lstrip("/")
    return ctx.actions.declare_file(in_package[:-len(".proto")] + extension)

def _cc_code_impl(ctx):
    proto = ctx.attr.proto[ProtoSourcesInfo]
    headers = []
    sources = []
    for source in proto.direct:
        arguments = ctx.actions.args()
        arguments.add("--proto_path=.")
        arguments.add(ctx.bin_dir.path, format = "--cpp_out=%s")
        source_headers = [_generated_file(ctx, source, ".pb.h")]
        source_sources = [_generated_file(ctx, source, ".pb.cc")]
        plugins = []
        if ctx.attr.grpc:
            arguments.add(ctx.bin_dir.path, format = "--grpc_out=%s")
            arguments.add(ctx.file._grpc_plugin, format = "--plugin=protoc-gen-grpc=%s")
            source_headers.append(_generated_file(ctx, source, ".grpc.pb.h"))
            source_sources.append(_generated_file(ctx, source, ".grpc.pb.cc"))
            plugins.append(ctx.file._grpc_plugin)
        arguments.add(source)
        ctx.actions.run(
            executable = ctx.file._protoc,
            arguments = [arguments],
            inputs = proto.transitive,
            tools = plugins,
            outputs = source_headers + source_sources,
            mnemonic = "Protoc",
            progress_message = "Generating C++ from %s" % source.short_path,
        )
        headers += source_headers
        sources += source_sources
    return [
        DefaultInfo(files = depset(headers + sources)),
        OutputGroupInfo(headers = depset(headers), sources = depset(sources)),
    ]

_cc_code = rule(
    implementation = _cc_code_impl,
    attrs = {
        "grpc": attr.bool(),
        "proto": attr.label(mandatory = True, providers = [ProtoSourcesInfo]),
        "_grpc_plugin": attr.label(
            allow_single_file = True,
            default = "@system_grpc//:grpc_cpp_plugin",
        ),
        "_protoc": attr.label(
            allow_single_file = True,
            default = "@system_protobuf//:protoc",
        ),
    },
)

def _cc_label(label):
    if ":" not in label:
        label = label + ":" + label.split("/")[-1]
    return label + "_cc"

def oneflow_proto_library(name, srcs, deps = [], grpc = False, visibility = None):
    """The .proto files as `name` and their C++ as `name`_cc.

    Args:
      name: its name.
      srcs: .proto files of this package.
      deps: other oneflow_proto_library targets that srcs import.
      grpc: whether srcs hold services.
      visibility: of both targets.
    """
    visibility = visibility or room_visibility()
    _proto_sources(
        name = name,
        srcs = srcs,
        visibility = visibility,
        deps = deps,
    )
    _cc_code(
        name = name + "_cc_code",
        grpc = grpc,
        proto = name,
    )
    native.filegroup(
        name = name + "_cc_headers",
        srcs = [name + "_cc_code"],
        output_group = "headers",
    )
    native.filegroup(
        name = name + "_cc_sources",
        srcs = [name + "_cc_code"],
        output_group = "sources",
    )
    native.cc_library(
        name = name + "_cc",
        srcs = [name + "_cc_sources"],
        hdrs = [name + "_cc_headers"],
        linkstatic = True,
        visibility = visibility,
        **precompiled(
            "for_library",
            copts = ["-w"],
            deps = [_cc_label(dep) for dep in deps] +
                   ["//third_party:grpc" if grpc else "//third_party:protobuf"],
        )
    )
