"""Checks of the source tree that no compiler makes. `python3 check_sources.py [root]` prints them.

1. Rooms: proto <- oneflow_core <- {compiler, actor_runtime} <- planning <- training <- tools, from #include and import lines.
2. Folders of oneflow_core: base <- tensor <- {{device, graph} <- op, recipe <- train} <- {model, plan <- {cost, net <- {print, verify}}}. In the
   other rooms, too, no folder includes another that includes it, straight or by way of others.
3. C++ files and Python tests have at most MAX_LINES lines.
4. Tests do not sleep; sources leave no work markers behind.
5. CUDA sources run on the emulated GPU, too, and give the same bits every time (GPU_RULES).
6. Golden files can be read: they have at most GOLDEN_LINES lines of GOLDEN_COLUMNS columns.
7. No two headers define a type of one name in one namespace: linked together, one would get the functions of the other.
8. README.md lists a walk through the sources. Each file of it names the next one in its first comment.
9. Only the room tools reads flags; the trainer, which others than the command line drive, prints nothing either.
10. A kind of op is named in at most KIND_FILES sources that are no tests: its row says all that the others ask. (A test builds graphs,
   and names the ops that they are made of.) A primitive of boxing is named in at most PRIMITIVE_FILES beside its row and kernels.
11. Sources that are compiled together (oneflow_cc_folder) define no name twice in their unnamed namespaces, nor one that a header
   declares as a function: another could be called instead.
12. A room has no more lines than lines.txt allows.
13. A number of a model (a row of model_rows.cc) is read or set in at most NUMBER_FILES sources beside the rows, the families and
   TRANSLATIONS.
14. A choice of a plan (a row of recipe_rows.cc) is read, set or named as a flag in at most CHOICE_FILES sources that are no tests, beside
   the rows and TRANSLATIONS.
"""

import collections
import pathlib
import re
import sys

MAX_LINES = 500
GOLDEN_LINES = 60
GOLDEN_COLUMNS = 120

# Kinds are named as "kind", outside of comments. The sources of a graph are the compiler's own vocabulary, of which every pass speaks.
KIND_FILES = 6
COMMON_KINDS = {"input", "variable"}
# Kinds with a reason to be named in more files.
MORE_KIND_FILES = {
    "add": (8, "the residual stream is made of it, products take it in, and boxing costs what one does"),
}
# Files in which such a text is the name of something else.
OTHER_MEANINGS = {
    "dropout": {"training/hugging_face/named_model.cc", "training/tokenizer/bpe_files.cc", "oneflow_core/recipe/model_rows.cc",
                "training/trainer/resume.cc"},
    "fill": {"actor_runtime/cuda/emulated/runtime.cc", "actor_runtime/exec/trace_events.cc"},
    "gelu": {"oneflow_core/op/activation.cc", "training/hugging_face/architecture.cc", "training/hugging_face/architecture_types.cc",
             "training/hugging_face/public_configs.cc"},
    # Attention has a cap of its scores, an attribute.
    "soft_cap": {"oneflow_core/op/attention.cc", "oneflow_core/op/attention_dims.h", "oneflow_core/op/cached_attention.cc",
                 "actor_runtime/kernel/attention.cc", "actor_runtime/kernel/cached_attention.cc",
                 "actor_runtime/cuda/kernel/attention.cu", "actor_runtime/cuda/kernel/cached_attention.cu",
                 "training/hugging_face/describe_model.cc"},
    "linear": {"oneflow_core/op/rotary.cc", "actor_runtime/kernel/rotary_frequencies.cc", "training/hugging_face/decoder_config.cc",
               "training/hugging_face/describe_model.cc"},
}

# Where a model's number belongs, and how many other files may name it: those that read and write a config.json, tell a graph's model,
# and print what `oneflow model` made.
# Translations to and from other systems say all of a model and a plan in other words, each system in its own file; that none
# forgets a choice is what tools/foreign/emit/emit_test.cc checks.
TRANSLATIONS = ("tools/foreign/", "tools/benchmarks/formula_bytes.cc")
NUMBER_FOLDERS = ("oneflow_core/model/", "oneflow_core/recipe/", *TRANSLATIONS)
NUMBER_FILES = 3
# The words of foreign models, and ours for them: a file for each kind of config.json.
FOREIGN_NUMBERS = re.compile(r"training/hugging_face/(architecture|\w+_config)\.cc")
NO_NUMBERS = {"graph", "family", "preset"}
# Numbers with a reason to be named in more files.
MORE_NUMBER_FILES = {
    "vocab": (6, "a checkpoint's notes have that of the imported model, which its graph may pad; so may that of a named one"),
    "sequence": (7, "a checkpoint's notes have the positions of the imported model, of which its graph may have fewer; so may that of a "
                    "named one, which is told of"),
    "hidden": (4, "an exported Llama whose heads do not divide its width is a Mistral of transformers"),
    "heads": (4, "an exported Llama whose heads do not divide its width is a Mistral of transformers"),
}
# Primitives of boxing, and the kernels of a send and a receive, have their rows in the first of these files. The others implement them.
PRIMITIVE_SOURCES = ["oneflow_core/tensor/primitive.cc", "actor_runtime/kernel/copy_slices.cc",
                     "actor_runtime/cuda/kernel/copy_slices.cu", "actor_runtime/cuda/emulated/meeting.cc"]
PRIMITIVE_FILES = 4

# A choice of a plan: the pass that obeys it, and at most three others. The reader of an older form of checkpoints does not count.
CHOICE_FILES = 4
OLD_FORMS = {"training/checkpoint/old_train.cc"}
# Choices with a reason to be named in more files.
MORE_CHOICE_FILES = {
    "mesh": (10, "what devices there are: each step of planning, the front end and a checkpoint's check ask it"),
    "device": (8, "kernels, memory and links differ by it, and so do warnings of verbs"),
    "batch": (16, "the size of a step: programs and the trainer have it, reports print it, search divides it, fit grows it"),
    "micro_batches": (17, "the size of a step: programs and the trainer have it, reports print it, search varies it"),
    "order": (5, "a file says it, reports name it, planning orders axes without it"),
    "schedule": (7, "search varies it, reports name it, planning fits its warm-ups"),
    "precision": (11, "costs of search ask it, reports and warnings of verbs name it"),
    "documents": (6, "data that the trainer and eval open are of the same kind"),
    "global_norm": (9, "planning asks how long updates wait, the trainer whether it may clip"),
    "overlap": (6, "streams, copies and gathers of the compiler are made by it, and planning asks what may run ahead"),
    "prefetch": (6, "streams, copies and gathers of the compiler are made by it, and planning chooses it"),
    "offload": (7, "search varies it, planning offers it, two passes obey it"),
    "recompute": (8, "search varies it, planning offers it, two passes obey it"),
    "update_on": (6, "planning offers it, bounds of search ask it, and advice to other systems leaves it out"),
    "host_memory": (6, "search compares plans with it"),
    "stage_layers": (6, "search varies it with the policies of blocks"),
}

# What a room may include, besides itself.
ROOMS = {
    "proto": set(),
    "oneflow_core": {"proto"},
    "compiler": {"proto", "oneflow_core"},
    "actor_runtime": {"proto", "oneflow_core"},
    "planning": {"proto", "oneflow_core", "compiler", "actor_runtime"},
    "training": {"proto", "oneflow_core", "compiler", "actor_runtime", "planning"},
    "tools": {"proto", "oneflow_core", "compiler", "actor_runtime", "planning", "training"},
    "tests": {"proto", "oneflow_core", "compiler", "actor_runtime", "planning", "training", "tools"},
    "examples": {"proto", "oneflow_core", "compiler", "actor_runtime", "training"},
}

# What a folder of oneflow_core may include, besides itself.
CORE_FOLDERS = {
    "base": set(),
    "tensor": {"base"},
    "device": {"base", "tensor"},
    "graph": {"base", "tensor"},
    "recipe": {"base", "tensor"},
    "op": {"base", "tensor", "device", "graph"},
    "model": {"base", "tensor", "graph", "op", "recipe"},
    "plan": {"base", "tensor", "device", "graph", "op"},
    "train": {"base", "tensor", "recipe"},
    "cost": {"base", "tensor", "graph", "op", "plan"},
    "print": {"base", "tensor", "graph", "op", "plan", "net", "recipe"},
    "net": {"base", "tensor", "graph", "op", "plan"},
    "verify": {"base", "tensor", "device", "graph", "op", "plan", "train", "net"},
}

CPP_SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*(?:#\s*include|import(?:\s+public)?)\s+"([^"]+)"')
SLEEP = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|SleepFor|time\.sleep)\b")
# Of code for GPUs, outside of comments: what is not allowed, why, and the files that may.
GPU_RULES = [
    (re.compile(r"<<<"), "kernels are launched by cuda::Launch", set()),
    (re.compile(r"\bcudaLaunch(Cooperative)?Kernel\w*\("), "kernels are launched by cuda::Launch", {"launch.cuh"}),
    (re.compile(r"\basm\b"), "inline PTX stands in mma.cuh", {"mma.cuh"}),
    (re.compile(r"\batomic(Add|Sub|Max|Min|CAS|Exch)\w*\("), "sums have an order that shapes fix", set()),
    (re.compile(r"#\s*include\s*[<\"](cub/|thrust/|cooperative_groups|mma\.h)"), "the emulated GPU has no such library",
     set()),
    (re.compile(r"\b__(shfl|any|all|ballot)(_up|_down|_xor)?\("), "warp functions name their lanes (_sync)", set()),
]
FLAG_READ = re.compile(r"\bFLAGS_\w+|#\s*include\s*[<\"]gflags/")
PRINT = re.compile(r"\b(f?printf|f?puts|std::cout|std::cerr)\b")
MARKER = re.compile(r"\b(TODO|FIXME)\b")
NUMBER = re.compile(r'\.name = "(\w+)"')
HOLDS_MODEL = re.compile(r"\bproto::Model\b|\bHuggingFaceConfig\b")
CHOICE_FIELD = r"[rR]ecipe(?:_|\(\))?(?:\.|->)(?:set_|has_|clear_|mutable_)?{name}\("
CHOICE_FLAG = r'"--{name}[=":; ]|\b(?:Given|FindRow|take)\((?:RecipeRows\(\), )?"{name}"'
KIND = re.compile(r'\.kind = "(\w+)"')
PRIMITIVE = re.compile(r'(?:^    \{|kernel == )"(\w+)"', re.MULTILINE)
COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*")|//[^\n]*')
COMMENT_OR_STRING = re.compile(r'//.*|"(?:\\.|[^"\\])*"')
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{$(.*?)^\}  // namespace \1$", re.MULTILINE | re.DOTALL)
TYPE = re.compile(r"^(?:class|struct|enum(?: class)?) (\w+)\b[^;\n]*\{", re.MULTILINE)
UNNAMED = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
UNNAMED_NAME = re.compile(r"^(?:(?:struct|class|enum(?: class)?) (\w+)[^;\n]*\{"
                          r"|(?:constexpr|const)\b[^=({\n]*?\b(\w+)(?:\[\w*\])* ?[={]"
                          r"|(?! |(?:using|template|namespace|struct|class|enum|constexpr|const)\b)[\w:<>,*& ]+?[ *&](\w+)\()", re.MULTILINE)
CALLED = re.compile(r"(?<![\w.:>])([A-Za-z_]\w*)\(")
DECLARED = re.compile(r"^(?! |(?:using|template|namespace|struct|class|enum|return)\b)[\w:<>,*& ]+?[ *&](\w+)\(", re.MULTILINE)
WALK_ITEM = re.compile(r"^\d+\. \[[^\]]+\]\(([^)]+)\)", re.MULTILINE)


def source_files(root):
    """All C++ and proto files of the rooms, as paths relative to root."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*")):
            if path.suffix in CPP_SUFFIXES | {".proto"} and path.is_file():
                yield path.relative_to(root)


def python_tests(root):
    """All Python files of the rooms that are tests, as paths relative to root; this check's own aside."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            relative = path.relative_to(root)
            if is_test(relative) and relative.parts[:2] != ("tests", "layering"):
                yield relative


def is_test(path):
    return path.parts[0] == "tests" or path.stem.endswith("_test")


def is_gpu_code(path):
    """What is compiled for a GPU and for the emulated one; not the emulator itself."""
    return path.parts[:2] == ("actor_runtime", "cuda") and "emulated" not in path.parts


def core_folder(path):
    """The folder of oneflow_core a path lies in; None elsewhere."""
    return path.parts[1] if path.parts[0] == "oneflow_core" and len(path.parts) > 2 else None


def include_problem(path, included):
    """Why `path` may not include `included`; None if it may."""
    room, other = path.parts[0], included.parts[0]
    if other not in ROOMS:
        return None  # Another project's header.
    if other == "tests" and is_test(path):
        return None
    if other != room:
        return None if other in ROOMS[room] else f"{room} must not include {other}"
    folder, other = core_folder(path), core_folder(included)
    if folder is None or other is None or folder == other or is_test(path):
        return None
    if other not in CORE_FOLDERS.get(folder, set()):
        return f"oneflow_core/{folder} must not include oneflow_core/{other}"
    return None


def find_folder(path):
    """The folder of a room that a path lies in, "compiler/passes"; the room's own files are one, too."""
    return "/".join(path.parts[:2]) if len(path.parts) > 2 else path.parts[0]


def folder_cycles(root):
    """Folders that include each other: "a -> b -> a". Tests are left out."""
    edges = {}
    for path in source_files(root):
        if is_test(path) or path.stem.endswith(("_for_test", "_test_util")) or path.suffix == ".proto":
            continue
        for line in (root / path).read_text(encoding="utf-8").splitlines():
            include = INCLUDE.match(line)
            other = pathlib.PurePosixPath(include[1]) if include else None
            if other and other.parts[0] in ROOMS and find_folder(other) != find_folder(path):
                edges.setdefault(find_folder(path), set()).add(find_folder(other))
    for start in sorted(edges):
        ways, seen = [[start]], {start}
        while ways:
            way = ways.pop()
            for folder in sorted(edges.get(way[-1], ())):
                if folder == start and start == min(way):
                    yield " -> ".join([*way, start]) + ": folders include each other"
                    return
                if folder not in seen:
                    seen.add(folder)
                    ways.append([*way, folder])


def held_out_words(root):
    """The rows of words.txt: (pattern of a word, what to say instead, whether comments and texts count, folders)."""
    listing = root / "tests/layering/words.txt"
    rows = []
    for line in listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []:
        if not line.strip() or line.startswith("#"):
            continue
        word, instead, where, folders = [column.strip() for column in line.split(" | ")]
        if where not in ("code", "text"):
            raise ValueError(f'words.txt: {word}: "{where}" is neither code nor text')
        rows.append((re.compile(word), instead, where == "text", folders.split()))
    return rows


def word_problems(root, path, rows):
    """Words of words.txt in a file; a member's underscore at the end does not count."""
    folders = {"*", path.parts[0], find_folder(path)}
    rows = [row for row in rows if not folders.isdisjoint(row[3])]
    for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines() if rows else [], 1):
        text = set(IDENTIFIER.findall(line))
        code = set(IDENTIFIER.findall(COMMENT_OR_STRING.sub(" ", line)))
        for word, instead, in_text, _ in rows:
            for found in sorted(text if in_text else code):
                if word.fullmatch(found.rstrip("_")):
                    yield f'{path}:{number}: the word "{found}"; say {instead} (tests/layering/words.txt)'


def file_problems(root, path):
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    if core_folder(path) not in CORE_FOLDERS.keys() | {None}:
        yield f"{path}: oneflow_core/{core_folder(path)} is not in CORE_FOLDERS"
    if path.suffix in CPP_SUFFIXES | {".py"} and len(lines) > MAX_LINES:
        yield f"{path}: {len(lines)} lines, more than {MAX_LINES}"
    for number, line in enumerate(lines, 1):
        include = INCLUDE.match(line)
        if include:
            problem = include_problem(path, pathlib.PurePosixPath(include[1]))
            if problem:
                yield f"{path}:{number}: {problem}: {include[1]}"
        if is_test(path) and SLEEP.search(line):
            yield f"{path}:{number}: tests wait for events, they do not sleep"
        if is_gpu_code(path):
            code = line.split("//")[0]
            for pattern, why, where in GPU_RULES:
                if pattern.search(code) and path.name not in where:
                    yield f"{path}:{number}: {why}: {line.strip()}"
        code = line.split("//")[0]
        if path.parts[0] in ROOMS["tools"] and FLAG_READ.search(code):
            yield f"{path}:{number}: only tools reads flags: take the value as an option"
        if path.parts[:2] == ("training", "trainer") and not is_test(path) and PRINT.search(code):
            yield f"{path}:{number}: the trainer prints nothing: notify its observer (notice.h)"
        if MARKER.search(line):
            yield f"{path}:{number}: do it, or write it down elsewhere: {line.strip()}"


def type_problems(root, paths):
    """Types that two headers define under one name in one namespace."""
    where = collections.defaultdict(list)
    for path in paths:
        if path.suffix != ".h":
            continue
        text = (root / path).read_text(encoding="utf-8")
        for namespace, body in NAMESPACE.findall(text):
            for name in TYPE.findall(body):
                where[f"{namespace}::{name}"].append(str(path))
    for name, headers in sorted(where.items()):
        if len(headers) > 1:
            yield f"{headers[1]}: {headers[0]} has a type {name}, too; rename one of them"


def golden_problems(root):
    """Golden files that are too long or too wide to be read."""
    for path in sorted((root / "tests").rglob("*.golden")):
        lines = path.read_text(encoding="utf-8").splitlines()
        relative = path.relative_to(root)
        if len(lines) > GOLDEN_LINES:
            yield (f"{relative}: {len(lines)} lines, more than {GOLDEN_LINES}; "
                   "make the case smaller, or print a part (tests/golden/golden_case.h)")
        for number, line in enumerate(lines, 1):
            if len(line) > GOLDEN_COLUMNS:
                yield f"{relative}:{number}: {len(line)} columns, more than {GOLDEN_COLUMNS}; break the line"


def first_comment(text):
    """The comment at the top of a source: its lines before the first that is not a comment."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line)
    return "\n".join(lines)


def walk_problems(root):
    """The files of the walk of README.md that do not exist, or that do not name the next one."""
    page = root / "README.md"
    if not page.exists():
        return
    walk = WALK_ITEM.findall(page.read_text(encoding="utf-8"))
    if len(walk) < 2:
        yield "README.md: no walk: a numbered list of links to sources"
    for path in walk:
        if not (root / path).is_file():
            yield f"README.md: {path}, a file of the walk, does not exist"
    for path, following in zip(walk, walk[1:]):
        if (root / path).is_file() and following not in first_comment((root / path).read_text(encoding="utf-8")):
            yield f"{path}: its first comment does not name {following}, the next file of README.md's walk"


def kind_problems(root):
    """Kinds of ops, and primitives of boxing, that too many sources name."""
    texts = {}
    for path in source_files(root):
        translates = str(path).startswith(TRANSLATIONS)  # other systems' words, too
        if path.suffix in CPP_SUFFIXES and not is_test(path) and "test" not in path.stem and not translates:
            text = (root / path).read_text(encoding="utf-8")
            texts[str(path)] = COMMENT.sub(lambda found: found[1] or "", text)
    rows = "".join(text for path, text in texts.items() if path.startswith("oneflow_core/op/"))
    for kind in sorted(set(KIND.findall(rows)) - COMMON_KINDS):
        files = [path for path, text in texts.items() if f'"{kind}"' in text and path not in OTHER_MEANINGS.get(kind, ())]
        most = MORE_KIND_FILES.get(kind, (KIND_FILES,))[0]
        if len(files) > most:
            yield f'"{kind}" is named in {len(files)} files, more than {most}; ask its row (oneflow_core/op/op_def.h): {", ".join(files)}'
    for name in sorted(set(PRIMITIVE.findall(texts.get(PRIMITIVE_SOURCES[0], "")))):
        files = [path for path, text in texts.items() if f'"{name}"' in text and path not in PRIMITIVE_SOURCES]
        if len(files) > PRIMITIVE_FILES:
            yield (f'"{name}" is named in {len(files)} files beside its row, more than {PRIMITIVE_FILES}; ask the row '
                   f'(oneflow_core/tensor/primitive.h): {", ".join(files)}')


def number_problems(root):
    """Numbers of a model that too many sources read or set."""
    rows = root / "oneflow_core/recipe/model_rows.cc"
    texts = {}
    for path in source_files(root) if rows.exists() else []:
        other = path.suffix in CPP_SUFFIXES and not is_test(path) and not str(path).startswith(NUMBER_FOLDERS)
        other = other and not FOREIGN_NUMBERS.fullmatch(str(path))
        text = COMMENT.sub(lambda found: found[1] or "", (root / path).read_text(encoding="utf-8")) if other else ""
        if HOLDS_MODEL.search(text):
            texts[str(path)] = text
    for number in sorted(set(NUMBER.findall(rows.read_text(encoding="utf-8"))) - NO_NUMBERS) if texts else []:
        accessor = re.compile(rf"[.>](?:set_|has_|clear_|mutable_)?{number}\(")
        files = [path for path, text in texts.items() if accessor.search(text)]
        most = MORE_NUMBER_FILES.get(number, (NUMBER_FILES,))[0]
        if len(files) > most:
            yield f"the model's {number} is named in {len(files)} files, more than {most}: {', '.join(files)}"


def choice_problems(root):
    """Choices of a plan that too many sources name."""
    rows = root / "oneflow_core/recipe/recipe_rows.cc"
    texts = {}
    for path in source_files(root) if rows.exists() else []:
        test = is_test(path) or path.stem.endswith(("_for_test", "_test_util"))
        others = str(path) in OLD_FORMS or path.parts[:2] == ("oneflow_core", "recipe") or str(path).startswith(TRANSLATIONS)
        if path.suffix in CPP_SUFFIXES and not test and not others:
            texts[str(path)] = COMMENT.sub(lambda found: found[1] or "", (root / path).read_text(encoding="utf-8"))
    for name in NUMBER.findall(rows.read_text(encoding="utf-8")) if texts else []:
        named = re.compile(f"{CHOICE_FIELD}|{CHOICE_FLAG}".replace("{name}", name))
        files = [path for path, text in texts.items() if named.search(text)]
        most = MORE_CHOICE_FILES.get(name, (CHOICE_FILES,))[0]
        if len(files) > most:
            yield f"the choice {name} is named in {len(files)} files, more than {most}; ask its row (recipe/row.h): {', '.join(files)}"


def together_folder(root, path):
    """The folder whose sources, that of `path` too, are compiled together; None if there is none."""
    for folder in path.parents:
        build = root / folder / "BUILD.bazel"
        if build.exists():
            return folder if "oneflow_cc_folder(" in build.read_text(encoding="utf-8") else None
    return None


def unnamed_problems(root):
    """Names in unnamed namespaces by which another source, which is compiled together with theirs, could mean something else."""
    declared, together = {}, collections.defaultdict(dict)
    for path in source_files(root):
        text = (root / path).read_text(encoding="utf-8")
        if path.suffix == ".h" and not is_test(path):
            declared.update((name, path) for name in DECLARED.findall(text))
        folder = together_folder(root, path) if path.suffix == ".cc" and not is_test(path) else None
        if folder is not None:
            together[folder][path] = text
    for texts in together.values():
        names = {path: {"".join(found) for body in UNNAMED.findall(text) for found in UNNAMED_NAME.findall(body)}
                 for path, text in texts.items()}
        called = {path: set(CALLED.findall(text)) for path, text in texts.items()}
        first = {}
        for path in texts:
            for name in sorted(names[path]):
                other = first.setdefault(name, path)
                if other != path:
                    yield f"{path}: {other} has a {name}, too, and is compiled with it; rename one, or share it"
                elif name in declared and any(name in called[user] - names[user] for user in texts):
                    yield f"{path}: {declared[name]} has a {name}, too, which a source that is compiled with this one calls; rename this"


def line_problems(root):
    """Rooms that are larger than lines.txt allows."""
    listing = root / "tests/layering/lines.txt"
    rows = listing.read_text(encoding="utf-8").splitlines() if listing.exists() else []
    for room, *most in (line.split() for line in rows if line and not line.startswith("#")):
        counts = {"lines": 0, "lines of tests": 0} if room != "docs" else {"words": 0}
        for path in (root / room).rglob("*"):
            if room == "docs" and path.suffix == ".md":
                counts["words"] += len(path.read_text(encoding="utf-8").split())
            elif room != "docs" and path.suffix in CPP_SUFFIXES | {".proto", ".py", ".sh", ".bazel"} and path.is_file():
                test = is_test(path.relative_to(root)) or path.stem.endswith(("_for_test", "_test_util"))
                counts["lines of tests" if test else "lines"] += len(path.read_text(encoding="utf-8").splitlines())
        for (what, count), allowed in zip(counts.items(), most):
            if count > int(allowed):
                yield f"{room}: {count} {what}, more than {allowed}: take some out, or raise its line of lines.txt and say why"


def problems(root):
    """All problems of the tree at root, as lines of text."""
    root = pathlib.Path(root)
    words = held_out_words(root)
    found = []
    for path in source_files(root):
        found += file_problems(root, path)
        found += word_problems(root, path, words)
    for path in python_tests(root):
        found += file_problems(root, path)
    found += folder_cycles(root)
    found += golden_problems(root)
    found += type_problems(root, source_files(root))
    found += walk_problems(root)
    found += kind_problems(root)
    found += number_problems(root)
    found += choice_problems(root)
    found += unnamed_problems(root)
    found += line_problems(root)
    return found


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    found = problems(root)
    print("\n".join(found) if found else "no problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
