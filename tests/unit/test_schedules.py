"""The examples of schedules: each is executed, from another folder, as cron or Airflow would.

Airflow's runs on a cluster: tests/cluster/test_documented.py.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from fusion.code_cache import cache_folder
from jobs.settings.config import load_config
from tests.installed import PLACE, install, the_night

ROOT = Path(__file__).parents[2]
COMMAND = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from jobs.cli import command
command()
"""


def test_the_nightly_configuration() -> None:
    config = load_config(str(ROOT / "conf" / "nightly.yaml"))
    assert all(Path(path).exists() for path in config.nightly.datasets)


def test_the_line_of_the_crontab(tmp_path: Path) -> None:
    """With the shell, the folder and the few variables that cron gives."""
    lines = (ROOT / "conf/schedules/crontab").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if re.match(r"\d", line)]
    *when, command = line.split(maxsplit=5)
    assert when == ["30", "2", "*", "*", "*"] and "%" not in command
    installed, home = install(tmp_path / "opt"), tmp_path / "home"
    script = installed / ".venv/bin/xmtc-fusion"
    for folder in (home, script.parent):
        folder.mkdir(parents=True)
    script.write_text(COMMAND)
    script.chmod(0o755)
    environment = {"HOME": str(home), "LOGNAME": "someone", "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    # Compiled once for all tests.
    environment["NUMBA_CACHE_DIR"] = str((cache_folder() or home).parent)
    words = ["/bin/sh", "-c", command.replace(PLACE, str(installed))]
    done = subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "debtags: ok" in (installed / "nightly.log").read_text()
    assert the_night(installed)["exit_code"] == 0
    assert not list(home.glob("[!.]*"))
