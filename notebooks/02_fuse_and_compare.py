# Databricks notebook source
# MAGIC %md
# MAGIC # Fuse and compare
# MAGIC
# MAGIC Two retrievers rank labels for every text. Is a fusion of the two better than either, which one is best, and is
# MAGIC that more than luck? At the end we look at one text, candidate by candidate.

# COMMAND ----------

import numpy as np
import pandas as pd
from pyspark.sql import functions as F

import xmtc_fusion as xf
from xmtc_fusion.notebook import beside, session, show, show_figure, widget

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
# MAGIC it. The second, `documents`, is BM25 over one document per label: its name, its description and the training
# MAGIC texts that carry it. That takes seconds; the bi-encoder (`dense`) complements BM25 better, and takes minutes and
# MAGIC the extra `dense`. Each row of what they write is one ranked list, of the tail or of the head labels of a text.

# COMMAND ----------

config = xf.load_config(dataset, {**settings, "work.path": work, "sparse.neighbours": 20, "sparse.aggregation": "sum"})
xf.prepare(config, spark=spark)
candidates = {"neighbours": xf.retrieve_sparse(config, spark=spark)}
if second == "dense":
    candidates["dense"] = xf.retrieve_dense(config, spark=spark)
else:
    # A folder of its own, since it is BM25 again, with another setting. Texts and folds come out the same.
    by_label = xf.load_config(dataset, {**settings, "work.path": f"{work}/documents", "sparse.mode": "labels"})
    xf.prepare(by_label, spark=spark)
    candidates["documents"] = xf.retrieve_sparse(by_label, spark=spark)
show(spark.read.parquet(candidates["neighbours"]).orderBy("text_id", "label_group"), rows=4)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Evaluate the whole grid
# MAGIC
# MAGIC All normalisations with all fusions, in one pass, fold by fold. The table shows `mean(standard deviation)` over
# MAGIC the folds, in percent; below each group, the best fusion against the better single retriever.

# COMMAND ----------

place = xf.Workspace.of(config)
result = xf.evaluate(place.samples, candidates, label_groups=place.labels, folds=place.folds, spark=spark)
print(result.table())

# COMMAND ----------

# MAGIC %md
# MAGIC The grid as a grid: nDCG@10, normalisations down, fusions across. Fusions that read only ranks have the same
# MAGIC value in every row.

# COMMAND ----------

show_figure(result.plot("grid", group))
column = f"label_group == '{group}' and metric == 'ndcg' and k == 10 and ideal == 'all'"
means = result.to_pandas().query(column).groupby(["normalization", "fusion"], sort=False).value.mean()
cells = means.drop("single").mul(100).unstack("fusion").round(1)
show(cells.reset_index())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Who wins, and with what confidence
# MAGIC
# MAGIC `comparisons` holds every cell against the best one and against each retriever, text by text: the difference
# MAGIC with its 95% interval, the effect size, and the p-values of a paired t-test and of random signs. Among sixty
# MAGIC cells one is best by luck alone; the summary above corrects for that. Here the winner against the single
# MAGIC retrievers, then the cells whose difference from the winner could be chance. If there are many, choose for other
# MAGIC reasons: simplicity, or what wins on other datasets.

# COMMAND ----------

winner = result.best("ndcg@10", group).cell
compared = result.details["comparisons"].to_pandas().query(column).set_index(["normalization", "fusion"])
figures = ["against_fusion", "queries", "difference", "low", "high", "effect", "p", "p_randomization"]
gains = compared[compared.against_normalization == "single"].loc[[tuple(winner)], figures]
show(gains.reset_index())
ties = compared[(compared.against_normalization != "single") & (compared.p > 0.05)]
show(ties[["difference", "low", "high", "p"]].sort_values("difference", ascending=False).reset_index(), rows=8)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Where the gain comes from
# MAGIC
# MAGIC Fusion can only rank what some retriever lists. `found` is each one's share of the relevant labels, `alone` what
# MAGIC only this one finds, `overlap` what their lists have in common, `union` the limit of any fusion.

# COMMAND ----------

show_figure(result.plot("agreement", group))
agreement = result.details["agreement"].to_pandas()
shares = agreement[agreement.quantity.isin(["found", "alone", "overlap", "union"])]
show(shares[["label_group", "quantity", "retriever", "other", "value"]].fillna(""), rows=40)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Look inside one text
# MAGIC
# MAGIC A text with five labels, and what each retriever lists for it:

# COMMAND ----------

names = spark.read.parquet(place.labels).select("label_id", "label").toPandas().set_index("label_id").label
text = spark.read.parquet(place.samples).where(F.size("label_ids") == 5).orderBy("text_id").first()
lists: dict[str, dict[int, float]] = {}
for retriever, path in candidates.items():
    rows = spark.read.parquet(path).where((F.col("text_id") == text["text_id"]) & (F.col("role") == "test"))
    pairs = [pair for row in rows.collect() for pair in zip(row["label_ids"], row["scores"], strict=True)]
    lists[retriever] = dict(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
print(text["text"])
print("relevant:", ", ".join(names[text["label_ids"]]))

# COMMAND ----------

# MAGIC %md
# MAGIC The winner normalises each list, then fuses. `xf.fuse` gives the fused ranking of any runs, here those of one
# MAGIC text; beside each label, its normalised score in either list.

# COMMAND ----------

fused = xf.fuse({retriever: {0: scores} for retriever, scores in lists.items()}, str(winner), top=64)[0]
ranking = pd.DataFrame({"label": names[list(fused)], "fused": fused.values()}, index=list(fused))
union = len(set().union(*lists.values()))
for retriever, scores in lists.items():
    normalized = xf.NORMALIZATIONS[winner.normalization].plain(np.array(list(scores.values())), union)
    ranking[retriever] = pd.Series(normalized, index=list(scores))
ranking["relevant"] = ranking.index.isin(text["label_ids"])
show(ranking, rows=10)

# COMMAND ----------

# MAGIC %md
# MAGIC Next: `03_bring_your_own_runs` does the same with rankings of your own.
