"""CUDA: `cuda_library` compiles .cu files with nvcc, `if_cuda` chooses by --config=cuda."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@local_cuda//:toolkit.bzl", "CUDA_ROOT")
load("//bazel:rooms.bzl", "room_visibility")

# Ampere and Hopper. PTX of the last one is added, which the driver compiles for later architectures:
# it must be one without a suffix, because code of "90a" runs on compute capability 9.0 alone. A
# kernel that needs instructions of "90a" is built for it in addition, in a library of its own.
_ARCHITECTURES = ["80", "90"]

_MODE_FLAGS = {
    "dbg": ["-O0", "-g", "-lineinfo"],
    "fastbuild": ["-O1", "-lineinfo"],
    "opt": ["-O3", "-DNDEBUG", "-lineinfo"],
}

def if_cuda(with_cuda, without = []):
    """A select of --config=cuda."""
    return select({
        "//bazel:cuda": with_cuda,
        "//conditions:default": without,
    })

def _nvcc_arguments(ctx, cc_toolchain, compilation, source, pic):
    """The command line of nvcc, but for the output."""
    arguments = ctx.actions.args()
    arguments.add(CUDA_ROOT + "/bin/nvcc")
    arguments.add_all(["-c", "-x", "cu", "-std=c++20", "-ccbin", cc_toolchain.compiler_executable])
    arguments.add_all(["-I.", "-I" + ctx.bin_dir.path])
    arguments.add_all(compilation.includes, before_each = "-I")
    arguments.add_all(compilation.quote_includes, before_each = "-I")
    arguments.add_all(compilation.system_includes, before_each = "-isystem")
    arguments.add_all(compilation.defines, format_each = "-D%s")
    for architecture in ctx.attr.architectures:
        arguments.add("-gencode=arch=compute_{0},code=sm_{0}".format(architecture))
    arguments.add("-gencode=arch=compute_{0},code=compute_{0}".format(ctx.attr.architectures[-1]))
    arguments.add_all(_MODE_FLAGS[ctx.var["COMPILATION_MODE"]])
    arguments.add_all(["--expt-relaxed-constexpr", "--expt-extended-lambda"])
    arguments.add("-Wno-deprecated-gpu-targets")
    arguments.add("-Xcompiler=-fno-canonical-system-headers" + (",-fPIC" if pic else ""))
    arguments.add_all(ctx.attr.copts)
    arguments.add(source)
    return arguments

def _compile(ctx, cc_toolchain, compilation, headers, source, pic):
    """Compiles one source; returns the object, and the file of what ptxas says of its kernels."""
    stem = "_cuda/%s/%s.%s" % (ctx.label.name, source.basename, "pic.o" if pic else "o")
    object_file = ctx.actions.declare_file(stem)
    dependencies = ctx.actions.declare_file(stem + ".d")
    unused = ctx.actions.declare_file(stem + ".unused")
    listing = ctx.actions.declare_file(stem + ".headers")
    resources = ctx.actions.declare_file(stem + ".ptxas")

    listed = ctx.actions.args()
    listed.set_param_file_format("multiline")
    listed.add_all(headers)
    ctx.actions.write(listing, listed)

    wrapper = ctx.actions.args()
    wrapper.add_all([dependencies, unused, listing, resources, "--"])
    output = ctx.actions.args()
    output.add("-o", object_file)

    ctx.actions.run(
        executable = ctx.executable._nvcc_wrapper,
        arguments = [
            wrapper,
            _nvcc_arguments(ctx, cc_toolchain, compilation, source, pic),
            output,
        ],
        inputs = depset([source, listing], transitive = [headers, cc_toolchain.all_files]),
        outputs = [object_file, dependencies, unused, resources],
        unused_inputs_list = unused,
        mnemonic = "CudaCompile",
        progress_message = "Compiling %s with nvcc" % source.short_path,
        env = {"PATH": "/usr/bin:/bin"},
    )
    return struct(object = object_file, resources = resources)

def _cuda_library_impl(ctx):
    if not CUDA_ROOT:
        fail("no CUDA toolkit: set CUDA_PATH, or build without --config=cuda")
    cc_toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = cc_toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    deps = [dep[CcInfo] for dep in ctx.attr.deps]
    compilation = cc_common.merge_cc_infos(cc_infos = deps).compilation_context
    headers = depset(ctx.files.hdrs, transitive = [compilation.headers])

    compiled = {
        pic: [
            _compile(ctx, cc_toolchain, compilation, headers, source, pic)
            for source in ctx.files.srcs
        ]
        for pic in [False, True]
    }
    objects = {pic: [c.object for c in compiled[pic]] for pic in compiled}
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = features,
        cc_toolchain = cc_toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = depset(objects[False]),
            pic_objects = depset(objects[True]),
        ),
        linking_contexts = [dep.linking_context for dep in deps],
        disallow_dynamic_library = True,
        alwayslink = ctx.attr.alwayslink,
    )
    own = CcInfo(
        compilation_context = cc_common.create_compilation_context(
            headers = depset(ctx.files.hdrs),
        ),
        linking_context = linking,
    )
    return [
        DefaultInfo(files = depset(objects[True])),
        OutputGroupInfo(ptxas = depset([c.resources for c in compiled[True]])),
        cc_common.merge_cc_infos(cc_infos = [own] + deps),
    ]

_cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "alwayslink": attr.bool(),
        "architectures": attr.string_list(default = _ARCHITECTURES),
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "srcs": attr.label_list(allow_files = [".cu"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_nvcc_wrapper": attr.label(
            cfg = "exec",
            default = "//bazel/cuda:nvcc_wrapper",
            executable = True,
        ),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def cuda_library(name, deps = [], visibility = None, **kwargs):
    """.cu files as a C++ dependency. Exists under --config=cuda only: depend on it with if_cuda.

    Args:
      name: its name.
      deps: C++ or CUDA libraries; the CUDA runtime is added.
      visibility: by default, the rooms that may depend on this one.
      **kwargs: srcs (.cu), hdrs, copts (of nvcc), architectures (such as ["80", "90"]).
    """
    _cuda_library(
        name = name,
        target_compatible_with = if_cuda([], ["//bazel/cuda:unavailable"]),
        visibility = visibility or room_visibility(),
        deps = deps + ["@local_cuda//:cudart"],
        **kwargs
    )
