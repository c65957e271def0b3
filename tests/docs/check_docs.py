#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the documentation with the programs and the sources that it describes, and prints every difference.

    check_docs.py BUILD options|events|formats|links|commands

  options   every verb and option of the programs' --help is on the program's page with its variable and its default,
            and no other is; every option of a script's --help is described somewhere
  events    events and their keys in the sources, against docs/events.md and docs/muster-monitor.md
  formats   CSV headers, run.json's keys, model keys and metadata in the sources, against the pages
  links     relative links and their anchors resolve; files that the text names exist
  commands  commands in fenced blocks name programs, verbs, options, scripts, presets and files that exist
"""

import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
PROGRAMS = {"muster": "swarm/muster", "muster-agent": "node-agent/muster-agent",
            "muster-launch": "node-agent/muster-launch",
            "muster-monitor": "monitoring/muster-monitor"}
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
HELP_TIMEOUT_S = 30

problems = []


def problem(where, text):
    problems.append(f"{where}: {text}")


def name_of(page):
    return str(page.relative_to(ROOT))


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


# ---- what programs say ----

@functools.cache
def help_of(*command):
    done = subprocess.run([str(word) for word in command] + ["--help"], capture_output=True, text=True,
                          timeout=HELP_TIMEOUT_S, check=False, cwd=ROOT)
    if done.returncode != 0:
        problem(" ".join(map(str, command)), f"--help exits with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def verbs_of(program):
    text = help_of(BUILD / PROGRAMS[program])
    return re.findall(r"^  ([a-z]+) ", text.partition("erbs:")[2], re.MULTILINE)


class Option:
    """An option as --help shows it: a head line, help text, and perhaps [VARIABLE, default VALUE]."""

    def __init__(self, head):
        self.letter, self.name, self.argument = head
        self.variable = self.default = None

    def names(self):
        return {"--" + self.name} | ({"-" + self.letter} if self.letter else set())


def options_of(program, verb):
    options = []
    for line in help_of(BUILD / PROGRAMS[program], verb).partition("Options:\n")[2].splitlines():
        head = re.match(r" {2}(?:-(\w), | {4})--([\w.-]+)(?: (\S+))?(?: {2}|$| )", line)
        source = re.match(r" +\[([A-Z_]+)?(?:, )?(?:default (.*))?\]$", line)
        if head:
            letter, name, argument = head.groups()
            # Flags have their help after at least two spaces, so no single word can be an argument.
            flag = re.match(r" {2}.{4}--[\w.-]+ {2}", line) is not None
            options.append(Option((letter, name, None if flag else argument)))
        elif source and options:
            options[-1].variable, options[-1].default = source.groups()
    return options


def script_options(script):
    """Words of a script's usage that begin with a dash."""
    usage = re.sub(r"cmake [^)]*", "", help_of("bash", ROOT / "scripts" / script))
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", usage))


def scripts():
    """The scripts that people call; the others are sourced."""
    return sorted(path.name for path in (ROOT / "scripts").glob("*.sh") if path.stat().st_mode & 0o100)


# ---- what pages say ----

def sections(text):
    """Heading -> text below it, down to the next heading of any level."""
    result, heading, fenced = {"": ""}, "", False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if not fenced and re.match(r"#+ ", line):
            heading = line.lstrip("#").strip()
            result.setdefault(heading, "")
        else:
            result[heading] += line + "\n"
    return result


def fenced_blocks(text):
    """(number of the first line, language, lines) of each block."""
    blocks, lines = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```") and lines is None:
            language, first, lines = line[3:].strip(), number + 1, []
        elif line.startswith("```"):
            blocks.append((first, language, lines))
            lines = None
        elif lines is not None:
            lines.append(line)
    return blocks


def without_fences(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def option_rows(text):
    """Names of the options in a table's first column -> the row."""
    rows = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.replace("\\|", "\0").split("|")]
        if len(cells) > 2 and cells[1].startswith("`-"):
            for name in re.findall(r"`(--?[\w.-]+)", cells[1]):
                rows[name] = line.replace("\\|", "|")
    return rows


# ---- the checks ----

def check_row(where, option, row):
    if option.variable and f"`{option.variable}`" not in row:
        problem(where, f"--{option.name}: its variable {option.variable} is not in its row")
    if option.default and f"`{option.default}`" not in row:
        problem(where, f"--{option.name}: its default {option.default} is not in its row")
    if option.argument and option.argument not in row:
        problem(where, f"--{option.name}: its argument {option.argument} is not in its row")


def check_program(program):
    page = ROOT / "docs" / f"{program}.md"
    parts = sections(page.read_text(encoding="utf-8"))
    # "Options of every verb", "Options for ...": for those verbs that do not have a row of their own.
    common = {name: row for heading, text in parts.items() if heading.startswith("Options ")
              for name, row in option_rows(text).items()}
    verbs, used = verbs_of(program), set()
    if not verbs:
        problem(program, "--help lists no verbs")
    for heading in parts:
        named = re.fullmatch(rf"{program} (\w+)", heading)
        if named and named.group(1) not in verbs:
            problem(name_of(page), f"describes '{heading}', which is no verb")
    for verb in verbs:
        where = f"docs/{program}.md, {program} {verb}"
        if f"{program} {verb}" not in parts:
            problem(name_of(page), f"no section '{program} {verb}'")
            continue
        own = option_rows(parts[f"{program} {verb}"])
        known = set()
        for option in options_of(program, verb):
            known |= option.names()
            # A section's own row goes before the common one: the same name can have another meaning here.
            rows = own if "--" + option.name in own else common
            used |= option.names()
            for name in option.names():
                if name not in rows:
                    problem(where, f"{name} is not in a table")
                else:
                    check_row(where, option, rows[name])
        for name in own.keys() - known:
            problem(where, f"{name} is in the table, and no option")
    for name in common.keys() - used:
        problem(name_of(page), f"{name} is in a table, and no verb has it")


def check_options():
    for program in PROGRAMS:
        check_program(program)
    everything = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for script in scripts():
        for option in sorted(script_options(script) - {"--help", "-h"}):
            if not re.search(rf"{re.escape(option)}(?![\w-])", everything):
                problem(f"scripts/{script}", f"{option} is described nowhere")


def source_events():
    """Event -> keys, from the calls that make it: everything between its beginning and its end."""
    events = {}
    pattern = re.compile(r'(?:report_begin|mst_event_new)\([^;]*?"(\w+)"\)(.*?)(?:report_send|mst_event_emit)\(', re.DOTALL)
    for path in [*ROOT.glob("node-agent/**/*.c"), *ROOT.glob("monitoring/*.c"), *ROOT.glob("trainer/*.c"),
                 *ROOT.glob("swarm/**/*.c")]:
        for name, body in pattern.findall(path.read_text(encoding="utf-8")):
            events.setdefault(name, set()).update(re.findall(r'(?:report_\w+|cJSON_Add\w+)\([^;"]*"(\w+)"', body))
    ends = re.compile(r'agent_end\([^;"]*"(\w+)"|tell_end\([^;"]*"(\w+)"')
    for source in ROOT.glob("node-agent/*.c"):
        for by_agent, by_end in ends.findall(source.read_text(encoding="utf-8")):
            events.setdefault(by_agent or by_end, set()).add("reason")
    return events


def sample_keys():
    return set(re.findall(r'add_(?:u64|text)\(event, "(\w+)"', read("monitoring/emit.c")))


def check_events():
    page = "docs/events.md"
    rows = {}
    for line in read(page).splitlines():
        row = re.match(r"\| `(\w+)` \|", line)
        if row:
            rows[row.group(1)] = line
    events = source_events()
    if len(events) < 10:
        problem("sources", f"only {len(events)} events were found: the pattern no longer fits them")
    for name in sorted(events.keys() - rows.keys()):
        problem(page, f"the event '{name}' has no row")
    for name in sorted(rows.keys() - events.keys()):
        problem(page, f"no source makes the event '{name}'")
    for name in sorted(events.keys() & rows.keys()):
        for key in sorted(events[name]):
            if f"`{key}`" not in rows[name]:
                problem(page, f"the event '{name}': its key '{key}' is not in its row")
    monitor = read("docs/muster-monitor.md")
    for key in sorted(sample_keys()):
        if f"`{key}`" not in monitor:
            problem("docs/muster-monitor.md", f"the key '{key}' of 'sample' is not described")


def literal(path, start):
    """A C string that begins with `start`, its pieces joined, without the line's end."""
    text = re.sub(r'"\s*\\?\n?\s*"', "", read(path))
    found = re.search(rf'"({re.escape(start)}[^"]*)"', text)
    if not found:
        problem(path, f"no text that begins with '{start}'")
        return None
    return found.group(1).removesuffix("\\n")


def check_csv(page, path, start):
    header = literal(path, start)
    if not header:
        return
    text = read(page)
    if header not in text:
        problem(page, f"the header of {path} is not there: {header}")
    for column in header.split(","):
        if not re.search(rf"^\| (?:`\w+`,? )*`{column}`", text, re.MULTILINE):
            problem(page, f"the column '{column}' ({path}) has no row")


def check_mentions(page, path, pattern, what):
    found = set(re.findall(pattern, read(path)))
    if not found:
        problem(path, f"no {what} found: the pattern no longer fits")
    text = read(page)
    for name in sorted(found):
        if not re.search(rf"[`\".]{re.escape(name)}[`\".]", text):
            problem(page, f"the {what} '{name}' ({path}) is not described")


def check_keys(page, path):
    """The strings in arrays whose names end in `keys`."""
    for keys in re.findall(r"keys\[\](?:\[\d\])? = \{(.*?)\};", read(path), re.DOTALL):
        for key in re.findall(r'"(\w+)"', keys):
            if f"`{key}`" not in read(page):
                problem(page, f"the key '{key}' ({path}) is not described")


def check_formats():
    page = "docs/run-folder.md"
    check_csv(page, "trainer/history.c", "slot,rank,view,epoch,steps,")
    check_csv(page, "node-agent/train_report.c", "slot,rank,view,epoch,step,")
    check_csv(page, "common/include/muster/csv.h", "slot,rank,view,epoch,steps,")
    check_csv(page, "common/include/muster/csv.h", "time,node,")
    check_mentions(page, "swarm/summary.c", r'(?:add_\w+|build_\w+)\((?:&build|build), \w+, "(\w+)"', "key of run.json")
    page = "docs/models.md"
    for layer in ("activation", "batch_norm", "conv2d", "dense", "dropout", "embedding", "flatten", "pool", "relu",
                  "softmax"):
        check_mentions(page, f"trainer/{layer}.c", r'\.type = "(\w+)"', "layer type")
        check_keys(page, f"trainer/{layer}.c")
    check_keys(page, "trainer/recipe.c")
    page = "docs/model-files.md"
    check_mentions(page, "trainer/save.c", r'add_text\(json, "(\w+)"', "metadata key")


def slug(heading):
    text = re.sub(r"[`*_]", "", heading).lower()
    return re.sub(r"[^\w -]", "", text).replace(" ", "-")


def check_link(page, target):
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        problem(name_of(page), f"the link '{target}' leads nowhere")
    elif anchor and file.suffix == ".md":
        if anchor not in map(slug, sections(file.read_text(encoding="utf-8"))):
            problem(name_of(page), f"the link '{target}': no such heading")


def check_named_file(where, name):
    """`folder/file`, also with * and {a,b}; what starts with a build or a run is not in the repository."""
    for one in expand(name):
        if not list(ROOT.glob(one.rstrip("/"))):
            problem(where, f"'{one}' is not in the repository")


def expand(name):
    found = re.search(r"\{([^}]*)\}", name)
    if not found:
        return [name]
    return [each for word in found.group(1).split(",")
            for each in expand(name[:found.start()] + word + name[found.end():])]


FOLDERS = "common|compose|swarm|discovery|trainer|node-agent|monitoring|scripts|data|docs|tests|cmake"


def check_links():
    for page in PAGES:
        text = without_fences(page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if not re.match(r"[a-z]+:", target):
                check_link(page, target)
        for name in re.findall(rf"(?<![\w/.])(?:{FOLDERS})/[\w./*{{}},-]*[\w*}}/]", text):
            # What a placeholder follows ("tests/MODULE/...") is a pattern for people.
            if not re.search(r"[A-Z]{3}|\.\.\.", name):
                check_named_file(name_of(page), name)


# ---- commands in fenced blocks ----

def check_words(where, command, words, options):
    """Options among `words` up to "--" are in `options`: name -> takes an argument."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word == "--":
            return
        elif re.match(r"--?[a-zA-Z]", word):
            name = word.partition("=")[0]
            if name not in options:
                problem(where, f"{command} has no option {name}")
            elif "=" not in word:
                skip = options[name]


def check_muster(where, program, words):
    if not words or words[0] in ("--help", "--version"):
        return
    verb = words[0]
    if re.fullmatch(r"[A-Z]+", verb):
        return
    if verb not in verbs_of(program):
        problem(where, f"{program} has no verb '{verb}'")
        return
    options = {"--help": False}
    for option in options_of(program, verb):
        options.update({name: option.argument is not None for name in option.names()})
    check_words(where, f"{program} {verb}", words[1:], options)


def check_script(where, path, words):
    script = pathlib.Path(path).name
    if not (ROOT / "scripts" / script).exists():
        problem(where, f"there is no scripts/{script}")
        return
    text = help_of("bash", ROOT / "scripts" / script)
    if script == "lab.sh" and words and words[0] not in re.findall(r"^  ([a-z]+)", text, re.MULTILINE):
        problem(where, f"lab.sh has no verb '{words[0]}'")
    if script == "lab.sh" and words and words[0] == "exec":
        return
    check_words(where, script, words, {name: False for name in script_options(script) | {"--help"}})


def check_preset(where, words):
    presets = json.loads(read("CMakePresets.json"))
    names = {preset["name"] for preset in presets["configurePresets"] if not preset.get("hidden")}
    for flag, name in zip(words, words[1:]):
        if flag == "--preset" and name not in names:
            problem(where, f"there is no preset '{name}'")


def check_command(where, line):
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        problem(where, f"'{line}': {error}")
        return
    while words and re.match(r"\w+=|(sudo|eval|time|env|exec|nice)$", words[0]):
        words.pop(0)
    if not words:
        return
    program, words = words[0], words[1:]
    if pathlib.Path(program).name in PROGRAMS:
        check_muster(where, pathlib.Path(program).name, words)
    elif re.match(r"(\./)?scripts/|.*/scripts/", program) and program.endswith(".sh"):
        check_script(where, program, words)
        if program.endswith("lab.sh") and words[:1] == ["exec"] and len(words) > 2:
            check_command(where, shlex.join(words[2:]))
    elif program in ("cmake", "ctest"):
        check_preset(where, words)
    for word in words:
        if re.match(rf"(?:{FOLDERS})/[\w./-]+$", word) and not (ROOT / word).exists():
            problem(where, f"'{word}' is not in the repository")


def commands(lines):
    """Commands of a shell block: with "$ " in front where output is shown, else every line; \\ carries on. A command
    substitution is a command too."""
    shows_output = any(line.startswith("$ ") for line in lines)
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines()
    for line in joined:
        if shows_output and not line.startswith("$ "):
            continue
        line = line.removeprefix("$ ").strip()
        if not line or line.startswith("#"):
            continue
        for inner in re.findall(r"\$\(([^()]*)\)", line):
            yield inner
        for part in re.split(r" && | \|\| | \| |; ", line):
            yield part


def check_commands():
    count = 0
    for page in PAGES:
        for first, language, lines in fenced_blocks(page.read_text(encoding="utf-8")):
            if language not in ("sh", "console"):
                continue
            for command in commands(lines):
                count += 1
                check_command(f"{name_of(page)}, block at line {first}", command)
    if count < 20:
        problem("docs", f"only {count} commands were found: the pattern no longer fits")


CHECKS = {"options": check_options, "events": check_events, "formats": check_formats, "links": check_links,
          "commands": check_commands}


def main():
    CHECKS[sys.argv[2]]()
    for text in problems:
        print(text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
