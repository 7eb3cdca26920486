"""The public names of xmtc-fusion.

Importing this package is cheap: each name is fetched from its module when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fusion import FUSIONS as FUSIONS
    from fusion import METRICS as METRICS
    from fusion import NORMALIZATIONS as NORMALIZATIONS
    from fusion import __version__ as __version__
    from fusion.errors import AlarmError as AlarmError
    from fusion.errors import ConfigError as ConfigError
    from fusion.errors import InputError as InputError
    from fusion.errors import OutputError as OutputError
    from fusion.errors import SetupError as SetupError
    from fusion.errors import XmtcError as XmtcError
    from fusion.registry import fusion as fusion
    from fusion.registry import label_metric as label_metric
    from fusion.registry import metric as metric
    from fusion.registry import normalization as normalization
    from jobs.nights.history import History as History
    from jobs.retrievers.own import retriever as retriever
    from jobs.settings.config import Config as Config
    from jobs.settings.config import load_config as load_config
    from jobs.settings.retrievers import RETRIEVERS as RETRIEVERS
    from jobs.storage.workspace import Workspace as Workspace
    from udfs.retrieval.folds import FoldTexts as FoldTexts
    from xmtc_fusion import notebook as notebook
    from xmtc_fusion.api import doctor as doctor
    from xmtc_fusion.api import evaluate as evaluate
    from xmtc_fusion.api import explain as explain
    from xmtc_fusion.api import fuse as fuse
    from xmtc_fusion.api import nightly as nightly
    from xmtc_fusion.api import prepare as prepare
    from xmtc_fusion.api import report as report
    from xmtc_fusion.api import retrieve as retrieve
    from xmtc_fusion.api import run as run
    from xmtc_fusion.api import tune as tune
    from xmtc_fusion.evaluation import Evaluation as Evaluation
    from xmtc_fusion.evaluation import Explanation as Explanation
    from xmtc_fusion.evaluation import Tuned as Tuned
    from xmtc_fusion.fitting import fit as fit
    from xmtc_fusion.model import Label as Label
    from xmtc_fusion.model import LabelExplanation as LabelExplanation
    from xmtc_fusion.model import Model as Model
    from xmtc_fusion.model import load_model as load_model


MODULES = {
    "AlarmError": "fusion.errors",
    "Config": "jobs.settings.config",
    "ConfigError": "fusion.errors",
    "Evaluation": "xmtc_fusion.evaluation",
    "Explanation": "xmtc_fusion.evaluation",
    "FUSIONS": "fusion",
    "FoldTexts": "udfs.retrieval.folds",
    "History": "jobs.nights.history",
    "InputError": "fusion.errors",
    "Label": "xmtc_fusion.model",
    "LabelExplanation": "xmtc_fusion.model",
    "METRICS": "fusion",
    "Model": "xmtc_fusion.model",
    "NORMALIZATIONS": "fusion",
    "OutputError": "fusion.errors",
    "RETRIEVERS": "jobs.settings.retrievers",
    "SetupError": "fusion.errors",
    "Tuned": "xmtc_fusion.evaluation",
    "Workspace": "jobs.storage.workspace",
    "XmtcError": "fusion.errors",
    "__version__": "fusion",
    "doctor": "xmtc_fusion.api",
    "evaluate": "xmtc_fusion.api",
    "explain": "xmtc_fusion.api",
    "fit": "xmtc_fusion.fitting",
    "fuse": "xmtc_fusion.api",
    "fusion": "fusion.registry",
    "label_metric": "fusion.registry",
    "load_config": "jobs.settings.config",
    "load_model": "xmtc_fusion.model",
    "metric": "fusion.registry",
    "nightly": "xmtc_fusion.api",
    "normalization": "fusion.registry",
    "notebook": "xmtc_fusion",
    "prepare": "xmtc_fusion.api",
    "report": "xmtc_fusion.api",
    "retrieve": "xmtc_fusion.api",
    "retriever": "jobs.retrievers.own",
    "run": "xmtc_fusion.api",
    "tune": "xmtc_fusion.api",
}
"""Each public name with the module that defines it (modules of this package: with the package). The imports above say
the same to type checkers."""

__all__ = list(MODULES)

PACKAGES = ("fusion", "jobs", "udfs")
"""The other packages of this project, which lie in the same folder, zip or wheel."""


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = MODULES[name]
    value = import_module(f"{home}.{name}") if home == __name__ else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *MODULES})


def _check_packages() -> None:
    """Refuse to go on where another package of the same name hides one of ours."""
    home = Path(__file__).resolve().parent.parent
    if any(_origin(name) is None for name in PACKAGES):
        # A plain folder loses against a package if both are on the path, but not against an editable install, whose
        # packages need not be on it.
        sys.path.append(str(home))
    for name in PACKAGES:
        ours, origin = home / name, _origin(name)
        if origin is None:
            raise ImportError(
                f"Python finds no package {name!r}; that of xmtc-fusion should be {ours}. Install xmtc-fusion again, "
                f"and import it before anything else that is called {name!r}.",
                name=name,
            )
        if origin.parent != ours:
            raise ImportError(
                f"xmtc-fusion needs its own package {name!r}, which is {ours}, but Python finds {origin} first. Rename "
                "that one, or keep its folder off sys.path: start Python elsewhere, or take it out of PYTHONPATH.",
                name=name,
            )


def _origin(name: str) -> Path | None:
    """The file that Python would import under a name; None if there is none, or only a plain folder."""
    spec = find_spec(name)
    return Path(spec.origin).resolve() if spec and spec.origin else None


_check_packages()
