"""README.md keeps its word: two commands, a picture, an example that runs and prints what it says."""

import re
import subprocess
import sys
from pathlib import Path

from tinygrad_attn.cli.main import COMMANDS
from tinygrad_attn.lab.catalogue import EXPERIMENTS

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, flags=re.DOTALL)


def test_there_are_exactly_two_set_up_commands_of_one_line_each():
    commands = [text.strip() for language, text in BLOCKS if language == "sh"]
    assert len(commands) == 2 and not any("\n" in command for command in commands)
    assert all(command.startswith("python3 -m venv ") for command in commands)
    assert "[viz]" in commands[0] and commands[0].endswith("tinygrad-attn demo")
    assert "[test]" in commands[1] and commands[1].endswith("python -m pytest")


def test_the_example_is_ten_lines_and_prints_what_is_shown():
    code, _ = [text for language, text in BLOCKS if language == "python"]
    (shown,) = [text for language, text in BLOCKS if language == ""]
    assert len(code.splitlines()) <= 10
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown in printed
    scaled = subprocess.run(
        [sys.executable, "-c", code.replace(", scale=1.0", "")], capture_output=True, text=True, check=True
    ).stdout
    without = re.search(r"Delete `scale=1.0`, and it hands on (\S+)\.\n", TEXT)
    assert without and f"mul        (16, 16)   median |g| {without[1]}" in scaled


def test_the_probe_is_used_as_shown(tmp_path):
    _, code = [text for language, text in BLOCKS if language == "python"]
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "attn.scores" in done.stdout and "M = W_Q W_K^T" in done.stdout and "Twin run" in done.stdout
    assert (tmp_path / "backward.html").stat().st_size > 10_000
    for tool in ("watch", "meters", "lens", "doctor", "zeros", "ledger", "stepper", "compare"):
        assert f"ta.probe.{tool}(" in code


def test_every_command_it_names_exists():
    shell = "\n".join(text for language, text in BLOCKS if language == "bash") + " ".join(
        re.findall(r"`([^`\n]+)`", TEXT)
    )
    named = set(re.findall(r"tinygrad-attn ([a-z]+)", shell))
    assert {"play", "report", "train", "lab", "inspect", "doctor", "step", "sweep"} <= named <= set(COMMANDS)
    assert len(EXPERIMENTS) == 16 and "sixteen questions" in TEXT


def test_every_file_and_folder_it_names_is_there():
    links = [*re.findall(r'src="([^"]+)"', TEXT), *re.findall(r"\]\(([^)#:]+)\)", TEXT)]
    links += re.findall(r"\b(?:examples|tests)/[\w/]+\.(?:py|toml)", TEXT)
    assert len(links) >= 3
    assert all((ROOT / link).exists() for link in links)
    drawing = next(text for language, text in BLOCKS if language == "mermaid")
    for room in re.findall(r"\b[a-z/]+(?:/|\.py)", drawing.replace("<br/>", " ")):
        assert (ROOT / "tinygrad_attn" / room).exists(), room


def test_the_pictures_are_small_and_described():
    for name in re.findall(r'src="([^"]+)"', TEXT):
        assert (ROOT / name).stat().st_size < 200_000
    assert TEXT.count("<img") == TEXT.count("alt=")


HOUSE = (ROOT / "tinygrad_attn" / "README.md").read_text(encoding="utf-8")


def test_the_house_names_every_room_and_every_file_of_the_engine():
    rooms = [path.name for path in (ROOT / "tinygrad_attn").iterdir() if (path / "__init__.py").exists()]
    assert all(
        f"      {room}/ " in HOUSE and f"**{room}/**" in HOUSE.replace("`", "") for room in rooms if room != "autodiff"
    )
    order = HOUSE[HOUSE.index("## The reading order") : HOUSE.index("## The rooms")]
    files = [path.name for path in (ROOT / "tinygrad_attn" / "autodiff").glob("*.py") if path.name != "__init__.py"]
    assert [name for name in files if f"`{name}`" not in order] == []


def test_what_the_house_and_the_recipes_name_is_there():
    for text, folders in (
        (HOUSE, [""]),
        ((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), ["", "probe/doctor/"]),
    ):
        for name in set(re.findall(r"`((?:\w+/)*\w+\.(?:py|toml))`", text)):
            if not re.search(r"my_|examples/", name):
                here = [ROOT / name, *(ROOT / "tinygrad_attn" / folder / name for folder in folders)]
                assert any(path.exists() for path in here) or list((ROOT / "tinygrad_attn").rglob(name)), name
