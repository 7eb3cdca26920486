# Databricks notebook source
# MAGIC %md
# MAGIC # Fuse and compare
# MAGIC
# MAGIC Two retrievers rank labels for every text. Is a fusion of the two better than either, which one is best, and is
# MAGIC that more than luck? At the end we look at one text, candidate by candidate.

# COMMAND ----------

from pyspark.sql import functions as F

from fusion.grid import SINGLE
from jobs import evaluate, fuse, prepare, retrieve_dense, retrieve_sparse
from jobs.config import load_config
from jobs.inputs.list_rows import load_lists
from jobs.reporting.console import summary
from jobs.run import evaluated
from jobs.runtime.notebook import beside, session, show, widget
from jobs.settings import OutputSettings
from udfs.windows import in_sql, normalized_rows

# COMMAND ----------

settings = {
    "prepare.folder": beside(widget("folder", "data/debtags", "Folder of the dataset's files")),
    "prepare.limit": int(widget("limit", "1000", "Number of texts") or 0) or None,
    "prepare.folds": 3,
}
dataset = beside(widget("config", "conf/datasets/debtags.yaml", "Dataset"))
work = widget("work", "work/notebooks", "Folder for results")
second = widget("second", "documents", "Second retriever: documents or dense")
group = widget("group", "all", "Labels to look at: all, head or tail")
spark = session()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Retrieve
# MAGIC
# MAGIC The first retriever, `neighbours`, is BM25 over training texts: a label scores by the similar texts that carry
# MAGIC it.

# COMMAND ----------

config = load_config(dataset, {**settings, "work.path": work, "sparse.neighbours": 20, "sparse.aggregation": "sum"})
prepare.run(spark, config)
candidates = {"neighbours": f"{retrieve_sparse.run(spark, config)}/{retrieve_sparse.LISTS}"}

# COMMAND ----------

# MAGIC %md
# MAGIC The second, `documents`, is BM25 over one document a label: its name, its description and the training texts
# MAGIC that carry it. That takes seconds; the bi-encoder (`dense`) is better company for BM25, and takes minutes and
# MAGIC the extra `dense`.

# COMMAND ----------

if second == "dense":
    candidates["dense"] = f"{retrieve_dense.run(spark, config)}/{retrieve_dense.LISTS}"
else:
    # A folder of its own, since it is BM25 again, with another setting. Texts and folds come out the same.
    by_label = load_config(dataset, {**settings, "work.path": f"{work}/documents", "sparse.mode": "labels"})
    prepare.run(spark, by_label)
    candidates["documents"] = f"{retrieve_sparse.run(spark, by_label)}/{retrieve_sparse.LISTS}"

# COMMAND ----------

# MAGIC %md
# MAGIC A row is one ranked list, of the tail or of the head labels of a text:

# COMMAND ----------

show(spark.read.parquet(candidates["neighbours"]).orderBy("text_id", "label_group"), rows=4)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Evaluate the whole grid
# MAGIC
# MAGIC All normalisations with all fusions, in one pass, fold by fold. The table shows `mean(standard deviation)` over
# MAGIC the folds, in percent; below each group, the best fusion against the better single retriever.

# COMMAND ----------

grid = evaluated(config, candidates)
result = evaluate.run(spark, grid)
print(summary(result, grid))

# COMMAND ----------

# MAGIC %md
# MAGIC The grid as a grid: nDCG@10, normalisations down, fusions across. Fusions that read only ranks have the same
# MAGIC value in every row.

# COMMAND ----------

column = f"label_group == '{group}' and metric == 'ndcg' and k == 10 and ideal == 'all'"
means = result.metrics.to_pandas().query(column).groupby(["normalization", "fusion"], sort=False).value.mean()
cells = means.drop(SINGLE).mul(100).unstack("fusion").round(1)
show(cells.reset_index())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Who wins, and with what confidence
# MAGIC
# MAGIC `comparisons` holds every cell against the best one and against each retriever, text by text: the difference
# MAGIC with its 95% interval, the effect size, and the p values of a paired t-test and of random signs. The best of
# MAGIC sixty cells is best by luck, too; the summary above corrects for that. Here the winner against the single
# MAGIC retrievers:

# COMMAND ----------

winner = means.drop(SINGLE).idxmax()
compared = result.details["comparisons"].to_pandas().query(column).set_index(["normalization", "fusion"])
figures = ["against_fusion", "queries", "difference", "low", "high", "effect", "p", "p_randomization"]
gains = compared[compared.against_normalization == SINGLE].loc[[winner], figures]
show(gains.reset_index())

# COMMAND ----------

# MAGIC %md
# MAGIC And which cells are as good? Those whose difference from the winner could be chance. If there are many, choose
# MAGIC for other reasons: simplicity, or what wins on other datasets.

# COMMAND ----------

ties = compared[(compared.against_normalization != SINGLE) & (compared.p > 0.05)]
show(ties[["difference", "low", "high", "p"]].sort_values("difference", ascending=False).reset_index(), rows=8)

# COMMAND ----------

# MAGIC %md
# MAGIC Where does the gain come from? Fusion can only rank what some retriever lists: `found` is each one's share of
# MAGIC the relevant labels, `alone` what only this one finds, `overlap` what their lists have in common, `union` the
# MAGIC limit.

# COMMAND ----------

agreement = result.details["agreement"].to_pandas()
shares = agreement[agreement.quantity.isin(["found", "alone", "overlap", "union"])]
show(shares[["label_group", "quantity", "retriever", "other", "value"]].fillna(""), rows=40)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Look inside
# MAGIC
# MAGIC The engine `windows` normalises with SQL window functions, one row a candidate. Its rows before fusion are an
# MAGIC ordinary table: here the candidates of one text, with their scores as retrieved and under the winner's
# MAGIC normalisation.

# COMMAND ----------

labels = spark.read.parquet(grid.inputs.label_groups).select("label_id", "label")
samples = spark.read.parquet(grid.inputs.judgements)
text = samples.where(F.size("label_ids") == 5).orderBy("text_id").first()
relevant = F.col("label_id").isin(text["label_ids"]).alias("relevant")
print(text["text"])
show(labels.where(relevant))

# COMMAND ----------

cell = load_config(settings={"grid.cells": ["+".join(winner)]}).grid
lists = load_lists(spark, grid.inputs, judged=False)
inside = lists.rows.where(F.col("text_id") == text["text_id"]).transform(
    normalized_rows(lists.layout, (group,), in_sql(cell.grid), buckets=1, partitions=1)
)
retriever = F.element_at(F.array(*map(F.lit, lists.layout.retrievers)), F.col("list") + 1).alias("retriever")
normalized = [F.col(f"normalized_{n}").alias(entry.name) for n, entry in enumerate(in_sql(cell.grid))]
looked_at = inside.join(labels, "label_id").select(retriever, "position", "label", "score", *normalized, relevant)
show(looked_at.where("position < 8").orderBy("retriever", "position"))

# COMMAND ----------

# MAGIC %md
# MAGIC And what the winner makes of them: job `fuse` writes fused lists, for use elsewhere.

# COMMAND ----------

output = OutputSettings(path=f"{work}/fused", mode="overwrite")
fuse.run(spark, grid.model_copy(update={"grid": cell, "output": output}))
fused = spark.read.parquet(f"{output.path}/fused.parquet").where(F.col("label_group") == group)
ranking = (
    fused.where(F.col("text_id") == text["text_id"])
    .select(F.posexplode(F.arrays_zip("label_ids", "scores")).alias("position", "pair"))
    .select("position", F.col("pair.label_ids").alias("label_id"), F.col("pair.scores").alias("score"))
    .join(labels, "label_id")
    .select("position", "label", "score", relevant)
)
show(ranking.orderBy("position"), rows=8)

# COMMAND ----------

# MAGIC %md
# MAGIC Next: `03_bring_your_own_runs` does the same with rankings of your own.
