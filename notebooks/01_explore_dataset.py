# Databricks notebook source
# MAGIC %md
# MAGIC # Explore a dataset
# MAGIC
# MAGIC Before anything is retrieved or fused: what are the texts and the labels, how unevenly are the labels
# MAGIC distributed, and how are the texts divided into folds? The shipped data are descriptions of Debian packages,
# MAGIC with their tags as labels.
# MAGIC
# MAGIC On Databricks the fields above the notebook set the dataset, its files (a folder of a volume; empty: that of the
# MAGIC configuration), the folder for results, and the number of texts (empty: all). Elsewhere, set `XMTC_CONFIG`,
# MAGIC `XMTC_FOLDER`, `XMTC_WORK`, `XMTC_LIMIT`. The next two cells are only for Databricks: they install the wheel
# MAGIC from the volume.
# MAGIC
# MAGIC `prepare` reads the published files, writes three tables, `samples` (the texts), `labels` and `folds`, and
# MAGIC returns their statistics. If you run the cell again, it reuses what is there.

# COMMAND ----------

# MAGIC %pip install --find-links /Volumes/main/xmtc_fusion_dev/files/dist xmtc-fusion[report]

# COMMAND ----------

# MAGIC %restart_python

# COMMAND ----------

from pyspark.sql import Window
from pyspark.sql import functions as F

import xmtc_fusion as xf
from xmtc_fusion.notebook import chart, files_folder, session, show, widget, work_folder

work = work_folder()
dataset = widget("config", "conf/datasets/debtags.yaml", "Dataset")
config = xf.load_config(
    dataset,
    {
        "prepare.folder": files_folder(dataset, work),
        "prepare.limit": int(widget("limit", "1000", "Number of texts") or 0) or None,
        "prepare.folds": 3,
        "work.path": work,
    },
)
spark = session()
statistics = xf.prepare(config, spark=spark)
place = xf.Workspace.of(config)
samples, labels, folds = (spark.read.parquet(path) for path in (place.samples, place.labels, place.folds))
counts = {**statistics["read"], **{name: value for name, value in statistics.items() if isinstance(value, int)}}
show(spark.createDataFrame(list(counts.items()), "what string, number long"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Texts
# MAGIC
# MAGIC Some texts with the names of their labels, and how many labels texts have.

# COMMAND ----------

tagged = samples.select("text_id", "text", F.explode("label_ids").alias("label_id")).join(labels, "label_id")
texts = tagged.groupBy("text_id", "text").agg(F.array_join(F.array_sort(F.collect_list("name")), ", ").alias("labels"))
show(texts.orderBy("text_id"), rows=5)
sizes = samples.groupBy(F.size("label_ids").alias("labels")).agg(F.count("*").alias("texts")).orderBy("labels")
chart(sizes, "labels", "texts", "Texts by their number of labels", x_title="labels per text")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Labels
# MAGIC
# MAGIC The labels are divided into ten bands of equal size, from the rarest to the most frequent. The chart shows the
# MAGIC share of all pairs of text and label in each band: the flatter it starts, the longer the tail. The most frequent
# MAGIC fifth of the labels is `head`, the rest is `tail` (`prepare.head_share`).

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
chart(
    shape,
    "band",
    "percent_of_pairs",
    "Pairs by label frequency",
    x_title="band of labels, the rarest first",
    y_title="% of pairs",
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Label groups
# MAGIC
# MAGIC A metric over all labels mostly measures head labels. So metrics are computed for `tail`, `head` and `all`
# MAGIC labels, each over the texts that have such a label.

# COMMAND ----------

groups = (
    tagged.groupBy("label_group")
    .agg(
        F.count_distinct("label_id").alias("labels"),
        F.count_distinct("text_id").alias("texts"),
        F.count("*").alias("pairs"),
    )
    .orderBy("label_group")
)
chart(groups, "label_group", ["labels", "texts", "pairs"], "Head and tail labels", y_title="number")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Folds
# MAGIC
# MAGIC Every text is a test text in one fold and a training text in the others, where some are held out for validation.
# MAGIC A label that only test texts carry cannot be learned from texts: the last column counts these. Packages built
# MAGIC from one source share much of their text; `prepare.group_key` keeps them together.
# MAGIC
# MAGIC Next: `02_fuse_and_compare` ranks labels for these texts and finds the best fusion.

# COMMAND ----------

divided = spark.createDataFrame(statistics["folds"])
show(divided.select("fold", "train", "validation", "test", "labels_only_in_test"))
chart(divided.orderBy("fold"), "fold", ["train", "validation", "test"], "Texts by fold and role", y_title="texts")
tested = folds.where("role = 'test'").agg(F.count("*").alias("tests"), F.count_distinct("text_id").alias("texts"))
