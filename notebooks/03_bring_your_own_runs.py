# Databricks notebook source
# MAGIC %md
# MAGIC # Bring your own runs
# MAGIC
# MAGIC You have rankings of two or more retrievers and the right answers. Nothing else is needed: no texts, no folds,
# MAGIC and ids may be any strings. This notebook evaluates all fusions of three retrievers, asks whether the third one
# MAGIC is worth its cost, writes the fused rankings and a report.

# COMMAND ----------

from pathlib import Path

from pyspark.sql import Window
from pyspark.sql import functions as F

from fusion.errors import InputError
from fusion.statistics.significance import best_of
from jobs import evaluate, fuse, report
from jobs.config import load_config
from jobs.reporting.console import summary
from jobs.runtime.notebook import beside, session, show, show_page, widget

# COMMAND ----------

# MAGIC %md
# MAGIC Give your runs as `name=source,name=source,...`, where a source is a TREC run file, a Parquet path or a catalog
# MAGIC table (`catalog.schema.table`), and the right answers as a TREC qrels file or a table. Without them, three small
# MAGIC runs are made here from the shipped texts.

# COMMAND ----------

runs = dict(run.split("=") for run in widget("runs", "", "Runs: name=source,...").split(",") if run)
judgements = widget("qrels", "", "Judgements: a TREC qrels file or a table")
work = f"{widget('work', 'work/notebooks', 'Folder for results')}/own"
examples = beside(widget("folder", "data/debtags", "Folder of the example's texts"))
spark = session()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Three retrievers, three formats
# MAGIC
# MAGIC For the example: half of the texts are known with their tags, for the other half tags are to be found.

# COMMAND ----------

if not runs:
    packages = spark.read.json(f"{examples}/texts.jsonl.gz").where("text_id % 25 = 0")
    texts = packages.select(
        F.substring_index("text", ":", 1).alias("text_id"),
        (F.col("text_id") % 50 == 0).alias("known"),
        F.array_distinct(F.split(F.lower("text"), r"\W+")).alias("words"),
        "labels",
    )
    known = texts.where("known").select(F.explode("labels").alias("label_id"), "words")
    asked = texts.where("not known").select("text_id", F.explode("words").alias("word"))
    rank = F.row_number().over(Window.partitionBy("text_id").orderBy(F.desc("score"), "label_id"))

# COMMAND ----------

# MAGIC %md
# MAGIC `words` scores a label by the words that it shares with known texts. One row a candidate, as Parquet.

# COMMAND ----------

if not runs:
    having = known.select("label_id", F.explode("words").alias("word")).groupBy("word", "label_id").count()
    share = having.withColumn("share", F.col("count") / F.sum("count").over(Window.partitionBy("word")))
    words = asked.join(share, "word").groupBy("text_id", "label_id").agg(F.sum("share").alias("score"))
    words.withColumn("rank", rank).where("rank <= 20").write.mode("overwrite").parquet(f"{work}/words.parquet")
    show(spark.read.parquet(f"{work}/words.parquet").orderBy("text_id", F.desc("score")), rows=3)

# COMMAND ----------

# MAGIC %md
# MAGIC `names` looks for the words of a label's name in the text. A TREC run file: text, Q0, label, rank, score, tag.

# COMMAND ----------

if not runs:
    labels = spark.read.json(f"{examples}/labels.jsonl.gz")
    parts = labels.select(
        F.col("label").alias("label_id"), F.array_distinct(F.split(F.lower("name"), r"\W+")).alias("parts")
    )
    part = parts.select("label_id", F.explode("parts").alias("word"), (1 / F.size("parts")).alias("share"))
    names = asked.join(part, "word").groupBy("text_id", "label_id").agg(F.sum("share").alias("score"))
    found = names.withColumn("rank", rank).where("rank <= 20").orderBy("text_id", "rank").collect()
    lines = [f"{row.text_id} Q0 {row.label_id} {row.rank} {row.score:.6f} names" for row in found]
    Path(work, "names.trec").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines[:3]))

# COMMAND ----------

# MAGIC %md
# MAGIC `popular` does not look at the text at all. One row a list, as Parquet.

# COMMAND ----------

if not runs:
    popular = known.groupBy("label_id").count().orderBy(F.desc("count"), "label_id").limit(20)
    ranked = F.array_sort(F.collect_list(F.struct((-F.col("count")).alias("order"), "label_id")))
    same = popular.agg(ranked.alias("ranked")).select(
        F.col("ranked.label_id").alias("label_ids"),
        F.transform("ranked", lambda pair: -pair["order"].cast("double")).alias("scores"),
    )
    asked.select("text_id").distinct().crossJoin(same).write.mode("overwrite").parquet(f"{work}/popular.parquet")
    show(spark.read.parquet(f"{work}/popular.parquet").orderBy("text_id"), rows=2)

# COMMAND ----------

# MAGIC %md
# MAGIC The right answers, one row a pair:

# COMMAND ----------

if not runs:
    pairs = texts.where("not known").select("text_id", F.explode("labels").alias("label_id"))
    pairs.write.mode("overwrite").parquet(f"{work}/judgements.parquet")
    judgements = f"{work}/judgements.parquet"
    runs = {"words": f"{work}/words.parquet", "names": f"{work}/names.trec", "popular": f"{work}/popular.parquet"}

# COMMAND ----------

# MAGIC %md
# MAGIC ## Evaluate
# MAGIC
# MAGIC Without folds all texts are one: there is no spread over folds, and the tests over texts decide. `pareto` makes
# MAGIC the most frequent fifth of the labels `head`.

# COMMAND ----------

settings = {
    "dataset": "own",
    "inputs.candidates": runs,
    "inputs.judgements": judgements,
    "inputs.label_groups": "pareto",
    "evaluate.metrics": "ndcg@1,ndcg@10,precision@10",
    "report.test": "queries",
    "output.mode": "overwrite",
}
config = load_config(settings={**settings, "output.path": f"{work}/results"})
result = evaluate.run(spark, config)
print(summary(result, config))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Is the third retriever worth it?
# MAGIC
# MAGIC Leave each one out in turn and see the best that the others reach: nDCG@10 of all labels, the first row with all
# MAGIC three. A row above the first one says: leave this one out. A weak retriever can cost more than it finds.

# COMMAND ----------


def best(retrievers: dict[str, str]) -> tuple[str, float]:
    """The best cell of some retrievers, and its nDCG@10."""
    chosen = load_config(settings={**settings, "inputs.candidates": retrievers, "evaluate.details": False})
    metrics = evaluate.run(spark, chosen).metrics.to_pandas()
    fused = metrics.query("label_group == 'all' and metric == 'ndcg' and k == 10 and normalization != 'single'")
    values = {(row.normalization, row.fusion): row.value for row in fused.itertuples()}
    cell = best_of(values)
    return "+".join(cell), values[cell]


tried = {"": runs, **{name: {other: runs[other] for other in runs if other != name} for name in runs}}
reached = [(name, *best(retrievers)) for name, retrievers in tried.items()]
show(spark.createDataFrame(reached, "without string, best string, ndcg_at_10 double"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Fused rankings
# MAGIC
# MAGIC The best of these as a table of lists, partitioned by cell.

# COMMAND ----------

left_out, winner, value = max(reached, key=lambda row: row[2])
chosen = {"inputs.candidates": tried[left_out], "grid.cells": [winner], "fuse.top": 10, "fuse.label_groups": "all"}
count = fuse.run(spark, load_config(settings={**settings, **chosen, "output.path": f"{work}/fused"}))
print(f"{count:,} lists of {winner}, from {' and '.join(tried[left_out])}")
show(spark.read.parquet(f"{work}/fused/fused.parquet").orderBy("text_id"), rows=3)

# COMMAND ----------

# MAGIC %md
# MAGIC ## A report
# MAGIC
# MAGIC Tables, figures and what was run, on one page that needs no network.

# COMMAND ----------

page = report.run(
    load_config(settings={**settings, "report.results": [f"{work}/results"], "output.path": f"{work}/report"})
)
show_page(page)

# COMMAND ----------

# MAGIC %md
# MAGIC ## When a run is broken
# MAGIC
# MAGIC A run that does not make sense stops the job, with the file, the column and the first offending rows. No number
# MAGIC is computed from half of the data.

# COMMAND ----------

broken = Path(work, "broken.trec")
broken.write_text("a2ps Q0 works-with::text 1 0.9 x\na2ps Q0 use::printing 2 high x\n", encoding="utf-8")
try:
    evaluate.run(spark, load_config(settings={**settings, "inputs.candidates": {**runs, "broken": str(broken)}}))
except InputError as error:
    message = str(error)
    print(message)

# COMMAND ----------

# MAGIC %md
# MAGIC Next: `04_nightly_review` looks at evaluations that are repeated every night.
