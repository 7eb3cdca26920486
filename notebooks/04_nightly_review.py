# Databricks notebook source
# MAGIC %md
# MAGIC # Review nightly runs
# MAGIC
# MAGIC Job `nightly` evaluates every dataset again, keeps all figures in a history, and gives the alarm if a watched
# MAGIC figure fell, a dataset is missing or the data moved. This notebook reads that history: what happened, since
# MAGIC when, and why.
# MAGIC
# MAGIC Give the work folder of the nightly job (`work.path`) and, if it is elsewhere, its history. Without them, four
# MAGIC nights are made up here.

# COMMAND ----------

import json
import shutil
from pathlib import Path

from pyspark.sql import functions as F

import xmtc_fusion as xf
from xmtc_fusion.notebook import beside, chart, session, show, show_page, widget

place = widget("nightly", "", "work.path of the nightly job")
history = widget("history", "", "Its history, if not <work.path>/history; on Databricks table:CATALOG.SCHEMA.nightly")
work = f"{widget('work', 'work/notebooks', 'Folder for results')}/nightly"
examples = beside(widget("folder", "data/debtags", "Folder of the example's texts"))
spark = session()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Four nights
# MAGIC
# MAGIC Two made-up retrievers rank tags of packages by chance, and the right ones higher. How much higher is their
# MAGIC skill.

# COMMAND ----------

nights = []


def write_lists(packages: str, skill: float) -> None:
    """What the nightly job reads: the right tags of some packages, and the rankings of two retrievers."""
    texts = spark.read.json(f"{examples}/texts.jsonl.gz").where(packages).select("text_id", "labels")
    known = texts.select(F.explode("labels").alias("label_id")).groupBy("label_id").count()
    labels = known.orderBy(F.desc("count"), "label_id").limit(60).select("label_id")
    right = F.array_contains("labels", F.col("label_id"))
    pairs = texts.crossJoin(labels).select("text_id", "label_id", right.cast("int").alias("right"))
    pairs.where("right = 1").write.mode("overwrite").parquet(f"{work}/judgements.parquet")
    for name, bonus in {"first": skill, "second": 0.6}.items():
        chance = F.pmod(F.xxhash64(F.lit(name), "text_id", "label_id"), F.lit(1000)) / 1000
        run = pairs.withColumn("score", chance + bonus * F.col("right"))
        run.write.mode("overwrite").parquet(f"{work}/{name}.parquet")


def night(run_id: str, **settings: str) -> None:
    """Job `nightly`; in production, `xmtc-fusion nightly --config conf/nightly.yaml`."""
    asked = {"datasets": [f"{work}/packages.yaml"], "run_id": run_id, **settings}
    config = {"work.path": work, "report.figures": False, **{f"nightly.{name}": asked[name] for name in asked}}
    nights.append(xf.nightly(xf.load_config(settings=config), spark=spark))
    print(nights[-1])


# COMMAND ----------

# MAGIC %md
# MAGIC The first night has nothing to compare with. On the second nothing has changed: nothing is computed, the figures
# MAGIC are kept.

# COMMAND ----------

made_up = not place
if made_up:
    # A history from its first night on, however often this is run.
    shutil.rmtree(work, ignore_errors=True)
    write_lists("text_id % 25 = 0", skill=0.6)
    runs = {name: f"{work}/{name}.parquet" for name in ("first", "second")}
    inputs = {"candidates": runs, "judgements": f"{work}/judgements.parquet", "label_groups": "pareto"}
    packages = {"dataset": "packages", "inputs": inputs, "evaluate": {"metrics": ["ndcg@10"], "randomizations": 0}}
    Path(work, "packages.yaml").write_text(json.dumps(packages), encoding="utf-8")
    place = work
    night("2026-03-02")
    night("2026-03-03")

# COMMAND ----------

# MAGIC %md
# MAGIC On the third night the first retriever is worse: somebody has broken it. The message says which figures fell,
# MAGIC from where to where, and that the data (here: the rankings) changed, not the configuration or the code. On the
# MAGIC fourth it is repaired, but other packages have come in. No figure fell, but most of the texts are not those of
# MAGIC the baseline, and the tags are distributed differently: an alarm about the data.

# COMMAND ----------

if made_up:
    write_lists("text_id % 25 = 0", skill=0.4)
    night("2026-03-04")
    write_lists("text_id % 20 = 0 AND text_id > 5000", skill=0.6)
    night("2026-03-05")

# COMMAND ----------

# MAGIC %md
# MAGIC ## The history
# MAGIC
# MAGIC Delta tables, or tables of a catalog. `runs` holds a row for each complete run of a dataset: the verdict, what
# MAGIC it was compared with, and fingerprints of its inputs, configuration and code. A dataset that was missing or
# MAGIC failed has a row with the reason. `xf.History` gives the rows that count; here they become views for SQL.

# COMMAND ----------

tables = xf.History(history or f"{place}/history", spark)
run_ids = [row["run_id"] for row in tables.runs()]
for name in ("runs", "watched", "checks", "drift", "metrics"):
    spark.createDataFrame(tables.read(name)).createOrReplaceTempView(name)
verdicts = spark.sql("""
    SELECT run_id, dataset, verdict, reason, baseline, evaluated FROM runs ORDER BY finished, run_id
""")
show(verdicts)

# COMMAND ----------

# MAGIC %md
# MAGIC What changed since the run it was compared with: which inputs, the configuration, the code? That tells where to
# MAGIC look first.

# COMMAND ----------

changed = spark.sql("""
    WITH parsed AS (SELECT *, from_json(data, 'map<string, string>') AS inputs FROM runs)
    SELECT now.run_id, now.dataset, now.verdict,
           map_keys(map_filter(now.inputs, (name, fingerprint) -> NOT fingerprint <=> was.inputs[name])) AS inputs,
           now.configuration <> was.configuration AS configuration, now.code <> was.code AS code
    FROM parsed now JOIN parsed was ON was.run_id = now.baseline AND was.dataset = now.dataset
    ORDER BY now.finished, now.run_id
""")
show(changed)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Watched figures over time
# MAGIC
# MAGIC With their 95% intervals, in percent. Drops that are too small for an alarm, but go on night after night, show
# MAGIC here.

# COMMAND ----------

trend = spark.sql("""
    SELECT run_id, label_group, concat(normalization, '+', fusion) AS cell, concat(metric, '@', k) AS metric,
           round(100 * mean, 1) AS mean, round(100 * low, 1) AS low, round(100 * high, 1) AS high, queries AS texts
    FROM watched WHERE metric = 'ndcg' ORDER BY label_group, cell, metric, run_id
""")
for group, rows in trend.toPandas().groupby("label_group"):
    lines = rows.pivot_table(index="run_id", columns="cell", values="mean")
    chart(lines.reset_index(), "run_id", list(lines.columns), f"nDCG of {group} labels, in percent", kind="line")
show(trend, rows=200)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The data
# MAGIC
# MAGIC Which checks they failed before they were evaluated, and what moved since the baseline by more than it may.

# COMMAND ----------

failed = spark.sql("""
    SELECT run_id, quantity, round(value, 3) AS value, round(before, 3) AS before, low, high, rule
    FROM checks WHERE alarm ORDER BY run_id, quantity
""")
show(failed)

# COMMAND ----------

drifted = spark.sql("""
    SELECT run_id, quantity, round(value, 3) AS value, round(change, 3) AS change, allowed
    FROM drift WHERE alarm ORDER BY run_id, quantity
""")
show(drifted)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Beyond the watched figures
# MAGIC
# MAGIC All cells are in the history, so a drop can be followed further. In the last run with a regression: which
# MAGIC retrievers and fusions lost most? nDCG@10 of all labels, in points. If a single retriever is at the top, look
# MAGIC there first.

# COMMAND ----------

losses = spark.sql("""
    WITH last AS (SELECT * FROM runs WHERE verdict = 'regression' ORDER BY finished DESC LIMIT 1)
    SELECT now.normalization, now.fusion, round(100 * avg(was.value), 1) AS before,
           round(100 * avg(now.value), 1) AS after, round(100 * avg(now.value - was.value), 1) AS change
    FROM last
    JOIN metrics now ON now.run_id = last.run_id AND now.dataset = last.dataset
    JOIN metrics was ON was.run_id = last.baseline AND was.dataset = last.dataset AND was.fold = now.fold
        AND was.normalization = now.normalization AND was.fusion = now.fusion AND was.label_group = now.label_group
        AND was.metric = now.metric AND was.k = now.k AND was.ideal = now.ideal
    WHERE now.label_group = 'all' AND now.metric = 'ndcg' AND now.k = 10
    GROUP BY ALL ORDER BY change, normalization, fusion
""")
show(losses, rows=8)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What a night leaves behind
# MAGIC
# MAGIC Each run leaves a folder with its report, a page of trends and a summary for programs, which is also what a
# MAGIC webhook gets.

# COMMAND ----------

summary = json.loads(Path(place, "nightly", run_ids[-1], "summary.json").read_text(encoding="utf-8"))
outcomes = [(name, dataset["verdict"], dataset["changed"]) for name, dataset in summary["datasets"].items()]
show(spark.createDataFrame(outcomes, "dataset string, verdict string, changed array<string>"))
show_page(f"{place}/nightly/{run_ids[-1]}/trend.html")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Pin a baseline
# MAGIC
# MAGIC By default, a run is compared with the last one that had no alarm. A slow decay, say half a point per night, is
# MAGIC never noticed that way. A pinned baseline does not move; the run is then compared with it and with the last one
# MAGIC that had no alarm. Set it in `conf/nightly.yaml`, in quotes, since it looks like a date,
# MAGIC
# MAGIC     nightly:
# MAGIC       baseline: "2026-03-02"
# MAGIC
# MAGIC or for one run with `--baseline 2026-03-02`, or for good with `xmtc-fusion nightly pin 2026-03-02`. After
# MAGIC a change that is meant (new data, another model), accept the first run that has it:
# MAGIC `xmtc-fusion nightly accept 2026-03-05 --because "new packages"`. For one run, a baseline does the same:

# COMMAND ----------

if made_up:
    night("2026-03-06", baseline="2026-03-05")
