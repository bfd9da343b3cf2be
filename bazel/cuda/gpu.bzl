"""GPU code in two flavours: by nvcc for a GPU, and as plain C++ for the emulated GPU of the tests.

    gpu_library(name = "x", srcs = ["x.cu", "x_host.cc"], hdrs = ["x.h"], gpu_deps = ["//y:launch"])

makes :x (under --config=cuda only) and :x_emulated (testonly). A binary links one flavour.
"""

load("//bazel:cc.bzl", "oneflow_cc_library", "oneflow_cc_test")
load("//bazel/cuda:cuda.bzl", "cuda_library", "if_cuda")

_EMULATED_RUNTIME = "//actor_runtime/cuda/emulated"

_EMULATED_COPTS = [
    "-x",
    "c++",
    # Kernels say #pragma unroll.
    "-Wno-unknown-pragmas",
]

def _emulated(label):
    """The label of the emulated flavour of a GPU library."""
    if label.startswith("//") and ":" not in label:
        label += ":" + label.split("/")[-1]
    return label + "_emulated"

def gpu_library(
        name,
        srcs = [],
        hdrs = [],
        deps = [],
        gpu_deps = [],
        emulated_deps = [],
        testonly = False,
        visibility = None):
    """A library of GPU code.

    Args:
      name: of the real library; the emulated one is called NAME_emulated.
      srcs: .cu files, which nvcc compiles, and .cc files, which see the toolkit's headers.
      hdrs: headers.
      deps: ordinary libraries.
      gpu_deps: other gpu_library targets: each flavour takes them in its own.
      emulated_deps: testonly libraries for the emulated flavour alone: twins of foreign libraries.
      testonly: whether the real library, too, is for tests alone.
      visibility: by default, the rooms that may depend on this one.
    """
    kernels = [source for source in srcs if source.endswith(".cu")]
    if kernels:
        cuda_library(
            name = name + "_kernels",
            srcs = kernels,
            hdrs = hdrs,
            testonly = testonly,
            visibility = ["//visibility:private"],
            deps = deps + gpu_deps,
        )
    oneflow_cc_library(
        name = name,
        srcs = [source for source in srcs if not source.endswith(".cu")],
        hdrs = hdrs,
        # The kernels of a library may call its own host code.
        alwayslink = bool(kernels) and len(kernels) < len(srcs),
        target_compatible_with = if_cuda([], ["//bazel/cuda:unavailable"]),
        testonly = testonly,
        visibility = visibility,
        deps = deps + gpu_deps + ["@local_cuda//:headers"] + ([":%s_kernels" % name] if kernels else []),
    )
    oneflow_cc_library(
        name = name + "_emulated",
        srcs = [source for source in srcs if not source.endswith(".cu")],
        hdrs = hdrs,
        testonly = True,
        visibility = visibility,
        deps = deps + [_emulated(dep) for dep in gpu_deps] + [_EMULATED_RUNTIME] +
               emulated_deps +
               ([":%s_emulated_kernels" % name] if kernels else []),
        alwayslink = bool(kernels) and len(kernels) < len(srcs),
    )
    if kernels:
        oneflow_cc_library(
            name = name + "_emulated_kernels",
            srcs = kernels,
            hdrs = hdrs,
            copts = _EMULATED_COPTS,
            testonly = True,
            visibility = ["//visibility:private"],
            deps = deps + [_emulated(dep) for dep in gpu_deps] + [_EMULATED_RUNTIME] +
                   emulated_deps,
        )

def gpu_test(name, srcs, deps = [], gpu_deps = [], tags = [], **kwargs):
    """A test of GPU code: NAME on the emulated GPU, NAME_gpu (tag gpu) on a real one.

    Args:
      name: of the test on the emulated GPU.
      srcs: .cc files.
      deps: ordinary libraries.
      gpu_deps: gpu_library targets.
      tags: of the test on the emulated GPU.
      **kwargs: as of oneflow_cc_test.
    """
    oneflow_cc_test(
        name = name,
        srcs = srcs,
        tags = tags,
        deps = deps + [_emulated(dep) for dep in gpu_deps],
        **kwargs
    )
    oneflow_cc_test(
        name = name + "_gpu",
        srcs = srcs,
        tags = ["gpu"],
        target_compatible_with = if_cuda([], ["//bazel/cuda:unavailable"]),
        deps = deps + gpu_deps,
        **kwargs
    )
