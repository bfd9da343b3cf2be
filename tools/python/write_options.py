"""Writes the stub oneflow_actors/_options.pyi: for each verb the keyword arguments of its function, from the engine's own rows.

    write_options.py FOLDER_OF_ENGINE >_options.pyi
"""
import re
import sys

VERBS = ("model", "compile", "fit", "search", "explain", "recipe", "verify", "run", "data", "import", "export", "eval", "diff",
         "simulate", "cluster", "generate", "train")


def main(folder):
    sys.path.insert(0, folder)
    import _engine  # pylint: disable=import-error,import-outside-toplevel
    print("from typing import TypedDict\n\nfrom oneflow_actors.calls import Flag")
    for verb in VERBS:
        try:
            rows = _engine.options(verb)
        except ValueError:  # a verb that is none of the engine's functions
            continue
        print(f"\nclass {verb.capitalize()}Flags(TypedDict, total=False):")
        for name, value, sentence, default, _ in rows:
            if name in ("from", "format") and (verb, name) != ("explain", "format"):
                continue
            text = re.sub(r'(["\\])', r"\\\1", f"{value or 'BOOL'}. {sentence}" + (f" Default: {default}." if default else ""))
            print(f'    {name}: Flag\n    """{text}"""')


if __name__ == "__main__":
    main(sys.argv[1])
