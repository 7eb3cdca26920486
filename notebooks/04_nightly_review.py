# Databricks notebook source
# MAGIC %md
# MAGIC # Review the nights
# MAGIC
# MAGIC Job `nightly` evaluates every dataset again, keeps all figures in a history, and raises an alarm if a watched
# MAGIC figure fell, a dataset is missing or the data drifted. This notebook reads that history: what happened, since
# MAGIC when, and why.
# MAGIC
# MAGIC Give the work folder of the nightly job (`work.path`) and, if it is elsewhere, its history. Without them, five
# MAGIC nights are made up here.

# COMMAND ----------

# MAGIC %pip install --find-links /Volumes/main/xmtc_fusion_dev/files/dist xmtc-fusion[report,nightly]

# COMMAND ----------

# MAGIC %restart_python

# COMMAND ----------

import json
import tempfile
from pathlib import Path

import pandas as pd

import xmtc_fusion as xf
from xmtc_fusion.notebook import chart, files_folder, session, show, show_page, widget

place = widget("nightly", "", "work.path of the nightly job")
history = widget("history", "", "Its history, if not <work.path>/history; on Databricks table:CATALOG.SCHEMA.nightly")
# The made-up nights are small and stay on this machine.
work = tempfile.mkdtemp()
examples = files_folder("conf/datasets/debtags.yaml", work)
made_up = not place

# COMMAND ----------

# MAGIC %md
# MAGIC ## Five nights
# MAGIC
# MAGIC Two made-up retrievers rank tags of packages at random, but the right ones higher; how much higher is their
# MAGIC skill. On the second night nothing has changed, so nothing is computed. On the third the first retriever is
# MAGIC broken: the message says which figures fell, by how much, and that the data changed, not the configuration or
# MAGIC the code. On the fourth it is repaired, but the packages have changed: an alarm about the data. The fifth is
# MAGIC compared with the fourth, as after an intended change.

# COMMAND ----------

nights = []


def write_lists(chosen: str, skill: float) -> None:
    """What the nightly job reads: the right tags of some packages, and the rankings of two retrievers."""
    texts = pd.read_json(f"{examples}/texts.jsonl.gz", lines=True).query(chosen)[["text_id", "labels"]]
    right = texts.explode("labels").rename(columns={"labels": "label_id"})
    common = right.label_id.value_counts().nlargest(60).index
    right = right[right.label_id.isin(common)]
    pairs = texts[["text_id"]].merge(pd.DataFrame({"label_id": sorted(common)}), how="cross")
    relevant = pd.MultiIndex.from_frame(pairs).isin(pd.MultiIndex.from_frame(right))
    right.to_parquet(f"{work}/judgements.parquet")
    for name, bonus in {"first": skill, "second": 0.6}.items():
        chance = pd.util.hash_pandas_object(pairs.assign(retriever=name), index=False) % 1000 / 1000
        pairs.assign(score=chance + bonus * relevant).to_parquet(f"{work}/{name}.parquet")


def night(run_id: str, **settings: str) -> None:
    """Job `nightly`; in production, `xmtc-fusion nightly --config conf/nightly.yaml`."""
    asked = {"datasets": [f"{work}/packages.yaml"], "run_id": run_id, **settings}
    config = {"work.path": work, "grid.engine": "local", **{f"nightly.{name}": asked[name] for name in asked}}
    nights.append(xf.nightly(xf.load_config(settings=config)))
    print(nights[-1])


if made_up:
    runs = {name: f"{work}/{name}.parquet" for name in ("first", "second")}
    inputs = {"candidates": runs, "judgements": f"{work}/judgements.parquet", "label_groups": "pareto"}
    packages = {"dataset": "packages", "inputs": inputs, "evaluate": {"metrics": ["ndcg@10"], "randomizations": 0}}
    Path(work, "packages.yaml").write_text(json.dumps(packages), encoding="utf-8")
    place = work
    write_lists("text_id % 25 == 0", skill=0.6)
    night("2026-03-02")
    night("2026-03-03")
    write_lists("text_id % 25 == 0", skill=0.4)
    night("2026-03-04")
    write_lists("text_id % 20 == 0 and text_id > 5000", skill=0.6)
    night("2026-03-05")
    night("2026-03-06", baseline="2026-03-05")

# COMMAND ----------

# MAGIC %md
# MAGIC ## What happened
# MAGIC
# MAGIC One row per night and dataset: the verdict, what it was compared with, and which inputs, settings or code differ
# MAGIC from that night. This shows where to look first.

# COMMAND ----------

tables = xf.History(history or f"{place}/history", session() if history.startswith("table:") else None)
runs = pd.DataFrame(tables.runs())
inputs = {(row.run_id, row.dataset): json.loads(row.data or "{}") for row in runs.itertuples()}
digests = {(row.run_id, row.dataset): (row.configuration, row.code) for row in runs.itertuples()}


def changes(row: pd.Series) -> str:
    """What differs from the night that a night was compared with."""
    now, was = (row.run_id, row.dataset), (row.baseline, row.dataset)
    if was not in inputs:
        return ""
    changed = [name for name in inputs[now] if inputs[now][name] != inputs[was].get(name)]
    others = zip(("configuration", "code"), digests[now], digests[was], strict=True)
    return ", ".join([*changed, *(name for name, new, old in others if new != old)])


verdicts = runs[["run_id", "dataset", "verdict", "baseline"]].assign(changed=runs.apply(changes, axis=1))
show(verdicts, rows=len(verdicts))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Watched figures over time
# MAGIC
# MAGIC One chart per label group, one line per watched cell and retriever. Drops that are too small for an alarm but
# MAGIC continue night after night show here. Below are all cells of the last night with a regression: which lost most?
# MAGIC If a single retriever is at the top, look there first.

# COMMAND ----------

watched = tables.read("watched").to_pandas().query("metric == 'ndcg' and k == 10")
watched["cell"] = watched.normalization + "+" + watched.fusion
trend = watched.assign(mean=100 * watched["mean"])[["run_id", "label_group", "cell", "mean", "low", "high", "queries"]]
for group, rows in trend.groupby("label_group"):
    lines = rows.pivot_table(index="run_id", columns="cell", values="mean").reset_index()
    title = f"Watched figures of {group} labels"
    chart(lines, "run_id", list(lines.columns[1:]), title, kind="line", x_title="night", y_title="nDCG@10 (%)")

regressions = runs[runs.verdict == "regression"]
if len(regressions):
    last = regressions.iloc[-1]
    figures = tables.read("metrics", [last.run_id, last.baseline], last.dataset).to_pandas()
    figures = figures[(figures.label_group == "all") & (figures.metric == "ndcg") & (figures.k == 10)]
    figures["cell"] = figures.normalization + "+" + figures.fusion
    means = 100 * figures.pivot_table(index="cell", columns="run_id", values="value", sort=False)
    losses = (means[last.run_id] - means[last.baseline]).rename("change").sort_values().reset_index()
    chart(losses.head(8), "cell", "change", f"What fell most on {last.run_id}", y_title="nDCG@10, points")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The data, and what to do
# MAGIC
# MAGIC Which checks the data failed, and what drifted further than allowed. Each night also leaves a folder with its
# MAGIC report, a page of trends and a summary for programs.
# MAGIC
# MAGIC By default a night is compared with the last one that had no alarm. A slow decline, say half a point per night,
# MAGIC is never noticed that way; a pinned baseline does not move: `xmtc-fusion nightly pin 2026-03-02`. After an
# MAGIC intended change, accept the first night that has it: `xmtc-fusion nightly accept 2026-03-05 --because "new
# MAGIC packages"`.

# COMMAND ----------

checks, drift = (tables.read(name).to_pandas().query("alarm") for name in ("checks", "drift"))
failed = checks[["run_id", "quantity", "value", "before", "low", "high", "rule"]]
drifted = drift[["run_id", "quantity", "value", "change", "allowed"]]
show(failed.round(3), rows=50)
show(drifted.round(3), rows=50)
show_page(f"{place}/nightly/{runs.run_id.iloc[-1]}/trend.html")
