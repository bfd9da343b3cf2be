"""together: sources of a library as few sources, so that what they all include is read once."""

# Sources of one compilation, at most: a change of one of them compiles all again.
_MOST = 20

def _together_impl(ctx):
    groups = -(-len(ctx.files.srcs) // _MOST)
    each = -(-len(ctx.files.srcs) // groups)
    made = []
    for group in range(groups):
        out = ctx.actions.declare_file("%s_%d.cc" % (ctx.label.name, group))
        sources = ctx.files.srcs[group * each:(group + 1) * each]
        ctx.actions.run_shell(
            # Messages and stacks name the lines of the sources.
            command = 'for file in "$@"; do printf \'#line 1 "%%s"\\n\' "$file"; cat "$file"; echo; done > %s' % out.path,
            arguments = [source.path for source in sources],
            inputs = sources,
            outputs = [out],
            mnemonic = "Together",
            progress_message = "Putting together %s" % out.short_path,
        )
        made.append(out)
    return [DefaultInfo(files = depset(made))]

_together = rule(
    implementation = _together_impl,
    attrs = {"srcs": attr.label_list(allow_files = [".cc"])},
)

def together(name, srcs):
    """The attribute srcs of a library `name`, from its .cc files.

    Names in unnamed namespaces must therefore differ between the sources of a library
    (tests/layering). With --define=together=false each source is compiled by itself.
    """
    if len(srcs) < 2:
        return srcs
    _together(name = name + "_together", srcs = srcs)
    return select({
        "//bazel:separate_sources": srcs,
        "//conditions:default": [name + "_together"],
    })
