# Databricks notebook source
# MAGIC %md
# MAGIC # Fuse and compare
# MAGIC
# MAGIC Two retrievers rank labels for every text. Is a fusion of the two better than either, which one is best, and is
# MAGIC the difference more than luck? At the end we look at one text, candidate by candidate.
# MAGIC
# MAGIC `bm25` ranks labels by the similar training texts that carry them, `bm25-labels` by one document per label: its
# MAGIC name, its description and its training texts. This takes seconds. The bi-encoder (`dense`) complements BM25
# MAGIC better, but takes minutes and needs the extra `[dense]`. Each row of their tables is one ranked list, of the
# MAGIC tail or the head labels of a text.

# COMMAND ----------

# MAGIC %pip install --find-links /Volumes/main/xmtc_fusion_dev/files/dist xmtc-fusion[report]

# COMMAND ----------

# MAGIC %restart_python

# COMMAND ----------

import xmtc_fusion as xf
from xmtc_fusion.notebook import files_folder, session, show, show_figure, widget, work_folder

second = widget("second", "bm25-labels", "Second retriever, such as bm25-labels or dense")
group = widget("group", "all", "Labels to look at: all, head or tail")
work = work_folder()
dataset = widget("config", "conf/datasets/debtags.yaml", "Dataset")
config = xf.load_config(
    dataset,
    {
        "prepare.folder": files_folder(dataset, work),
        "prepare.limit": int(widget("limit", "1000", "Number of texts") or 0) or None,
        "prepare.folds": 3,
        "work.path": work,
        "retrievers": ["bm25", second],
    },
)
spark = session()
xf.prepare(config, spark=spark)
candidates = xf.retrieve(config, spark=spark)
show(spark.read.parquet(candidates["bm25"]).orderBy("text_id", "label_group"), rows=4)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The whole grid
# MAGIC
# MAGIC All normalisations with all fusions, in one pass, fold by fold. The table shows `mean(standard deviation)` over
# MAGIC the folds, in percent; below each group, the best fusion is compared with the better single retriever. The chart
# MAGIC shows nDCG@10 of every cell. Fusions that read only ranks have the same value in every row.

# COMMAND ----------

place = xf.Workspace.of(config)
result = xf.evaluate(
    place.samples,
    candidates,
    label_groups=place.labels,
    folds=place.folds,
    dataset=config.dataset,
    spark=spark,
)
print(result.table())
show_figure(result.plot("grid", group))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Which fusion wins, and how certain is that
# MAGIC
# MAGIC The chart shows the gain of the best fusion over the better retriever, with its 95% interval. Among sixty cells
# MAGIC one may be best by luck alone: the table lists the cells that do not differ significantly from the winner in a
# MAGIC test over the texts. If there are many, choose for other reasons: simplicity, or what wins on other datasets.

# COMMAND ----------

winner = result.best("ndcg@10", group).cell
show_figure(result.plot("gain"))
compared = result.details["comparisons"].to_pandas()
compared = compared[(compared.label_group == group) & (compared.metric == "ndcg") & (compared.k == 10)]
compared = compared[(compared.ideal == "all") & (compared.against_normalization != "single") & (compared.p > 0.05)]
# Retrievers alone are in the chart above.
compared = compared[compared.normalization != "single"]
ties = compared[["normalization", "fusion", "difference", "low", "high", "p"]].sort_values("difference")
show(ties[::-1], rows=8)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Where the gain comes from
# MAGIC
# MAGIC Fusion can only rank labels that some retriever lists: the first chart shows what each of them finds, what only
# MAGIC it finds, and the union, which is the limit of any fusion. The second shows for which labels the best fusion
# MAGIC pays, from the rarest to the most frequent.

# COMMAND ----------

show_figure(result.plot("agreement", group))
show_figure(result.plot("frequency"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## One text
# MAGIC
# MAGIC How the winner ranks one text: rank, score and normalised score in each list.
# MAGIC
# MAGIC Next: `03_bring_your_own_runs` does all of this with your own rankings.

# COMMAND ----------

text = spark.read.parquet(place.samples).where("size(label_ids) = 5").orderBy("text_id").first()
print(text["text"])
explanation = xf.explain(
    candidates,
    text["text_id"],
    str(winner),
    place.samples,
    label_group=group,
    label_groups=place.labels,
    folds=place.folds,
    spark=spark,
)
show(explanation.table, rows=10)
