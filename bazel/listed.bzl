"""listed_functions: the functions of a kind that sources define, as a list for C++."""

def listed_functions(name, returns, srcs):
    """NAME.inc.h: a line LISTED(f) for each function `RETURNS f() {` of the sources, by name.

    A source that defines one is thereby in the list; no other file names it.
    """
    native.genrule(
        name = name + "_inc",
        srcs = srcs,
        outs = [name + ".inc.h"],
        cmd = "sed -n 's/^%s \\([A-Za-z0-9]*\\)() {.*/LISTED(\\1)/p' $(SRCS) | LC_ALL=C sort > $@ && test -s $@" % returns,
    )
