"""system_library: a Debian -dev package as a cc_library.

Headers come from /usr/include, which the compiler searches anyway, so a library is its linker flags
and a check that the package is installed. Bazel does not notice an upgrade of a package: run
`bazel clean` after one.
"""

_INCLUDE_DIRECTORIES = ["/usr/include/", "/usr/include/x86_64-linux-gnu/", "/usr/local/include/"]

_BUILD_FILE = """\
package(default_visibility = ["//visibility:public"])

cc_library(
    name = "library",
    linkopts = {linkopts},
    deps = {deps},
)
"""

def _fail_missing(repository_ctx, what):
    fail("{} is not installed: run tools/install_deps (or: apt-get install {})".format(
        what,
        " ".join(repository_ctx.attr.packages),
    ))

def _check_header(repository_ctx, header):
    for directory in _INCLUDE_DIRECTORIES:
        if repository_ctx.path(directory + header).exists:
            return
    _fail_missing(repository_ctx, "header <%s>" % header)

def _pkg_config_flags(repository_ctx):
    pkg_config = repository_ctx.which("pkg-config")
    if not pkg_config:
        _fail_missing(repository_ctx, "pkg-config")
    result = repository_ctx.execute([pkg_config, "--libs"] + repository_ctx.attr.pkg_config)
    if result.return_code != 0:
        _fail_missing(repository_ctx, "pkg-config module " + result.stderr)
    flags = []
    for flag in result.stdout.strip().split(" "):
        if flag and flag not in flags:
            flags.append(flag)
    return flags

def _system_library_impl(repository_ctx):
    attr = repository_ctx.attr
    for header in attr.headers:
        _check_header(repository_ctx, header)

    libraries = list(attr.linkopts)
    if attr.pkg_config:
        libraries += _pkg_config_flags(repository_ctx)
    linkopts = []
    if libraries:
        # A binary loads only the libraries that it uses.
        linkopts = ["-Wl,--push-state,--as-needed"] + libraries + ["-Wl,--pop-state"]

    for tool in attr.tools:
        path = repository_ctx.which(tool)
        if not path:
            _fail_missing(repository_ctx, tool)
        repository_ctx.symlink(path, tool)

    build_file = _BUILD_FILE.format(linkopts = repr(linkopts), deps = repr(attr.deps))
    if attr.tools:
        build_file += "\nexports_files(%s)\n" % repr(attr.tools)
    repository_ctx.file("BUILD.bazel", build_file)

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "deps": attr.string_list(doc = "Labels of other libraries that it needs."),
        "headers": attr.string_list(doc = "Headers that must exist."),
        "linkopts": attr.string_list(doc = "Linker flags."),
        "packages": attr.string_list(doc = "Debian packages, for the error message."),
        "pkg_config": attr.string_list(doc = "pkg-config modules whose linker flags are added."),
        "tools": attr.string_list(doc = "Programs on PATH, exported under their names."),
    },
    configure = True,
    environ = ["PATH", "PKG_CONFIG_PATH"],
    local = True,  # Looked at again whenever the server starts.
)
