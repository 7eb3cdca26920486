"""The option that makes pip look at PyTorch's index of CPU builds, printed where it helps; nothing otherwise.

On Linux, PyPI's torch is built for NVIDIA's GPUs and draws gigabytes of their libraries. The index is offered only
where there is no such GPU, and where it answers within a few seconds: pip would fail on one that it cannot reach.

    python .ci/torch_index.py [INDEX]
"""

import os
import shutil
import sys
import threading
from urllib.request import Request, urlopen

INDEX = "https://download.pytorch.org/whl/cpu"
SECONDS = 4


def answers(index: str) -> bool:
    """Whether the index has a page for torch. The time limit includes the search for the host's address."""
    pages = []

    def ask() -> None:
        try:
            with urlopen(Request(f"{index}/torch/", method="HEAD"), timeout=SECONDS) as page:
                pages.append(page.status)
        except (OSError, ValueError):
            pass

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SECONDS)
    return bool(pages)


def option(index: str) -> str:
    """What to give pip."""
    wanted = sys.platform == "linux" and shutil.which("nvidia-smi") is None
    return f"--extra-index-url {index}" if wanted and answers(index) else ""


if __name__ == "__main__":
    print(option(sys.argv[1] if len(sys.argv) > 1 else INDEX), flush=True)
    # A thread that still waits for an answer must not keep this process.
    os._exit(0)
