"""@local_cuda: the CUDA toolkit at $CUDA_PATH, $CUDA_HOME or /usr/local/cuda.

Loading it never fails, so that //... builds on machines without a toolkit. cuda_library does.
"""

_BUILD_FILE = """\
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "cudart",
    linkopts = [
        "-L{libraries}",
        "-Wl,-rpath,{libraries}",
        "-lcudart_static",
        "-ldl",
        "-lrt",
        "-lpthread",
    ],
)

# For g++: nvcc has them anyway.
cc_library(
    name = "headers",
    hdrs = glob([
        "include/*.h",
        "include/*.hpp",
        "include/crt/**",
        "include/nv/**",
    ]),
    includes = ["include"],
)

[
    cc_library(
        name = name,
        linkopts = ["-l" + name],
        deps = [":cudart"],
    )
    for name in ["cublas", "cublasLt", "cudnn", "nccl"]
]
"""

def _cuda_configure_impl(repository_ctx):
    environment = repository_ctx.os.environ
    root = environment.get("CUDA_PATH") or environment.get("CUDA_HOME") or "/usr/local/cuda"
    if not repository_ctx.path(root + "/bin/nvcc").exists:
        root = ""
    else:
        repository_ctx.symlink(root + "/include", "include")
    repository_ctx.file("toolkit.bzl", "CUDA_ROOT = %s\n" % repr(root))
    repository_ctx.file("BUILD.bazel", _BUILD_FILE.format(libraries = root + "/lib64"))

cuda_configure = repository_rule(
    implementation = _cuda_configure_impl,
    configure = True,
    environ = ["CUDA_PATH", "CUDA_HOME"],
    local = True,
)
