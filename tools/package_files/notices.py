"""The notices of third parties that a package must carry: the copyrights of the Debian packages that it takes files from.

  text = notices(carry(...).values())

A package of which a program takes headers alone leaves no file behind; HEADERS names these. A licence that Debian's text only
refers to (/usr/share/common-licenses) is added in full. Needs Debian: dpkg-query, and the copyright files, which its slim images
keep, too.
"""
import pathlib
import re
import subprocess
import textwrap

HEADERS = ("nlohmann-json3-dev", "libtomlplusplus-dev")
LICENSES = pathlib.Path("/usr/share/common-licenses")
REFERENCE = re.compile(rf"{LICENSES}/([A-Za-z0-9][\w.+-]*\w)")
RULE = "=" * 100
HEAD = """oneflow is distributed together with what is listed below, each under its own licence. The libraries are Debian's, unchanged but
for the path on which they look for each other; their sources are at https://sources.debian.org/src/NAME/VERSION/ and can be built
and put into the place of these files.
"""


def query(*arguments):
    return subprocess.run(["dpkg-query", *arguments], capture_output=True, text=True, check=False).stdout


def owners(files):
    """The packages that installed `files`: {file: package}. LookupError: none did."""
    paths = {}  # as dpkg may know it, by the file: in /lib, too, which is /usr/lib now
    for file in files:
        path = str(pathlib.Path(file).resolve())
        paths |= {path: file, path.removeprefix("/usr"): file}
    found = {}
    for line in query("--search", *paths).splitlines():
        package, _, path = line.rpartition(": ")
        if path in paths:
            found[paths[path]] = package.split(", ")[0]
    if missing := set(paths.values()) - set(found):
        raise LookupError(f"{min(missing)}: belongs to no Debian package, so its licence is not known")
    return found


def notices(files, headers=HEADERS):
    """Text that names the sources of `files` and of `headers`, with their copyrights and licences."""
    contents = {}  # of a package: the names of its files
    for file, package in owners(files).items():
        contents.setdefault(package, []).append(pathlib.Path(file).name)
    contents |= {package: ["headers, compiled into the program"] for package in headers}
    parts = {}  # by copyright, which the packages of one source share: their files
    for package, names in contents.items():
        source, version = query("--show", "--showformat=${source:Package} ${source:Version}", package).split()
        text = pathlib.Path("/usr/share/doc", package.partition(":")[0], "copyright").read_text(encoding="utf-8")
        parts.setdefault((source, version, text), []).extend(names)
    chapters = [HEAD]
    licenses = {}  # by the file that a name leads to: the names, as GPL of GPL-3
    for (source, version, text), names in sorted(parts.items()):
        chapters.append(textwrap.fill(f"{source} {version}: {', '.join(sorted(names))}", 100) + "\n\n" + text)
        for name in REFERENCE.findall(text):
            licenses.setdefault((LICENSES / name).resolve(), set()).add(str(LICENSES / name))
    for file, names in sorted(licenses.items()):
        chapters.append(f"{' and '.join(sorted(names))}, which is referred to above\n\n{file.read_text(encoding='utf-8')}")
    return f"\n{RULE}\n".join(chapters)
