# Databricks notebook source
# MAGIC %md
# MAGIC # Explore a dataset
# MAGIC
# MAGIC Before anything is retrieved or fused: what are the texts, what are the labels, how uneven are they, and how are
# MAGIC the texts divided into folds? The shipped data are descriptions of Debian packages, with their tags as labels.

# COMMAND ----------

from pyspark.sql import Window
from pyspark.sql import functions as F

from jobs import prepare
from jobs.config import load_config
from jobs.runtime.notebook import beside, session, show, widget
from jobs.runtime.workspace import Workspace

# COMMAND ----------

# MAGIC %md
# MAGIC On Databricks the fields above the notebook choose the dataset, its files (a folder of a volume), the folder for
# MAGIC results, and how many texts are taken (empty: all). Elsewhere, set `XMTC_CONFIG`, `XMTC_FOLDER`, `XMTC_WORK`,
# MAGIC `XMTC_LIMIT`.

# COMMAND ----------

config = load_config(
    beside(widget("config", "conf/datasets/debtags.yaml", "Dataset")),
    {
        "prepare.folder": beside(widget("folder", "data/debtags", "Folder of the dataset's files")),
        "prepare.limit": int(widget("limit", "1000", "Number of texts") or 0) or None,
        "prepare.folds": 3,
        "work.path": widget("work", "work/notebooks", "Folder for results"),
    },
)
spark = session()

# COMMAND ----------

# MAGIC %md
# MAGIC ## Prepare
# MAGIC
# MAGIC `prepare` reads the published files and writes three tables: `samples` (the texts), `labels` and `folds`. It
# MAGIC does so once; run this cell again and it finds its work done.

# COMMAND ----------

statistics = prepare.run(spark, config)
print(prepare.summary(statistics, config.prepare.paper))

# COMMAND ----------

prepared = Workspace.of(config).prepared
samples, labels, folds = (spark.read.parquet(f"{prepared}/{name}.parquet") for name in ("samples", "labels", "folds"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Texts
# MAGIC
# MAGIC Each text with the names of its labels:

# COMMAND ----------

tagged = samples.select("text_id", "text", F.explode("label_ids").alias("label_id")).join(labels, "label_id")
texts = tagged.groupBy("text_id", "text").agg(F.array_join(F.array_sort(F.collect_list("name")), ", ").alias("labels"))
show(texts.orderBy("text_id"), rows=5)

# COMMAND ----------

# MAGIC %md
# MAGIC How long are texts, and how many labels does one have?

# COMMAND ----------

sizes = samples.select(F.size(F.split("text", r"\s+")).alias("words"), F.size("label_ids").alias("labels"))
quartiles = F.array(*map(F.lit, (0.0, 0.25, 0.5, 0.75, 1.0)))
lengths = sizes.agg(
    F.percentile("words", quartiles).alias("words (min, quartiles, max)"),
    F.percentile("labels", quartiles).alias("labels (min, quartiles, max)"),
)
show(lengths)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Labels
# MAGIC
# MAGIC The most frequent fifth of the labels is `head`, the rest is `tail` (`prepare.head_share`). The ends of the
# MAGIC list:

# COMMAND ----------

show(labels.select("label", "name", "frequency", "label_group").orderBy(F.desc("frequency"), "label_id"), rows=5)
show(labels.select("label", "name", "frequency", "label_group").orderBy("frequency", "label_id"), rows=5)

# COMMAND ----------

# MAGIC %md
# MAGIC The shape between them. Labels in ten bands of equal size, from the rarest to the most frequent, and the share
# MAGIC of all pairs (text, label) that falls into each. The flatter the beginning, the longer the tail.

# COMMAND ----------

band = F.ntile(10).over(Window.orderBy("frequency", "label_id"))
shape = (
    labels.withColumn("band", band)
    .groupBy("band")
    .agg(
        F.count("*").alias("labels"),
        F.min("frequency").alias("rarest"),
        F.max("frequency").alias("commonest"),
        F.round(100 * F.sum("frequency") / F.lit(statistics["pairs"]), 1).alias("percent_of_pairs"),
    )
    .orderBy("band")
)
show(shape)

# COMMAND ----------

# MAGIC %md
# MAGIC What that means for evaluation: a metric over all labels is a metric of the head. Hence metrics are computed for
# MAGIC `tail`, `head` and `all` labels, each over the texts that have such a label.

# COMMAND ----------

groups = (
    tagged.groupBy("label_group")
    .agg(
        F.count_distinct("label_id").alias("labels"),
        F.count("*").alias("pairs"),
        F.count_distinct("text_id").alias("texts"),
    )
    .orderBy("label_group")
)
show(groups)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Folds
# MAGIC
# MAGIC Every text is tested in one fold and trained on in the others, a part of which is held out for early stopping. A
# MAGIC label that only test texts carry cannot be learnt from texts: the last column counts them.

# COMMAND ----------

show(spark.createDataFrame(statistics["folds"]).select("fold", "train", "validation", "test", "labels_only_in_test"))

# COMMAND ----------

# MAGIC %md
# MAGIC No text is tested twice, and none is forgotten. (Packages built from one source share much of their text;
# MAGIC `prepare.group_key` keeps them on one side of a fold.)

# COMMAND ----------

tested = folds.where("role = 'test'").agg(F.count("*").alias("tests"), F.count_distinct("text_id").alias("texts"))
show(tested)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What `prepare` reports
# MAGIC
# MAGIC What was read and left out, and how much is known about the labels. Names and descriptions are what a retriever
# MAGIC of label documents and the bi-encoder read.

# COMMAND ----------

known = ["labels", "labels_without_texts", "named_labels", "labels_with_alt_names", "labels_with_description"]
counts = {**statistics["read"], **{name: statistics[name] for name in known}}
show(spark.createDataFrame(list(counts.items()), "what string, number long"))

# COMMAND ----------

# MAGIC %md
# MAGIC Next: `02_fuse_and_compare` retrieves labels for these texts and finds the best fusion.
