# Databricks notebook source
# MAGIC %md
# MAGIC # Label new texts
# MAGIC
# MAGIC The other notebooks compare fusions on texts whose labels are known. Here a model learns from all of these, and
# MAGIC then labels texts that have no labels yet: with probabilities, as many labels as pay, and the reasons.
# MAGIC
# MAGIC `bm25` finds labels by similar training texts, `static` by vectors of words and of the labels' names. Both need
# MAGIC neither Spark nor a GPU. Give a configuration of your own to fit a model on your texts.

# COMMAND ----------

# MAGIC %pip install --find-links /Volumes/main/xmtc_fusion_dev/files/dist xmtc-fusion[report]

# COMMAND ----------

# MAGIC %restart_python

# COMMAND ----------

import pandas as pd

import xmtc_fusion as xf
from xmtc_fusion.notebook import chart, files_folder, show, widget, work_folder

work = work_folder()
dataset = widget("config", "conf/datasets/debtags.yaml", "Dataset")
settings = {
    "prepare.folder": files_folder(dataset, work),
    "prepare.limit": int(widget("limit", "2000", "Number of texts") or 0) or None,
    "prepare.folds": 3,
    "work.path": f"{work}/labelling",
    "retrievers": ["bm25", "static"],
    "retrievers.static.model": "words",
}
config = xf.load_config(dataset, settings)
model = xf.fit(config=config, objective=widget("objective", "f1", "f1, precision=0.8 or recall=0.9"))
print(model)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Can the probabilities be trusted?
# MAGIC
# MAGIC Scores of fusions are no probabilities. `fit` learns curves from score to probability on validation texts, which
# MAGIC the retrievers had not seen. The chart compares what half of these texts were promised, by curves from the other
# MAGIC half, with what came true: bars of a pair should have the same height. From the same texts come the smallest
# MAGIC probability and the largest number of labels that a text gets, for the objective above.

# COMMAND ----------

figures = model.validation
bins = pd.DataFrame(figures["reliability"])
bins = bins.assign(candidates=bins.rows.map("{:,}".format), promised=bins.probability, relevant=bins.frequency)
chart(bins, "candidates", ["promised", "relevant"], "Probabilities, and how often they are right")
made = figures["assignment"]
print(f"calibration error {100 * figures['calibration_error']:.1f} points")
print(
    f"assigned: {made['labels_per_text']:.1f} labels per text, precision {made['precision']:.2f}, F1 {made['f1']:.2f}"
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## New texts
# MAGIC
# MAGIC A table (or a list) of texts gives a table with one row per text and label; a single text gives a list. A text
# MAGIC of which the retrievers know no word gets no label.

# COMMAND ----------

texts = pd.DataFrame(
    {
        "text_id": ["mail", "chess", "solver"],
        "text": [
            "A fast mail client for the terminal, with IMAP, threads and encryption",
            "Play chess against the computer on a board in three dimensions",
            "A library in C++ that solves sparse linear systems on several cores",
        ],
    }
)
labelled = model.predict(texts).to_pandas()
show(labelled, rows=len(labelled))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Why these labels?
# MAGIC
# MAGIC For each label: its rank and score in the list of every retriever, what the normalisation made of the score, how
# MAGIC these were fused, and the training texts that speak for it.

# COMMAND ----------

explanation = model.explain(texts.text[0], top=5)
print(explanation)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Keep it, and use it elsewhere
# MAGIC
# MAGIC The folder can be moved and loaded on any machine. For many texts, let the job label them:
# MAGIC `xmtc-fusion predict --model MODEL --texts table:catalog.schema.texts --format parquet --output OUT`, on Spark
# MAGIC where the texts ask for it. `model.log_to_mlflow(registered="NAME")` makes it a version of a registered model,
# MAGIC which `mlflow.pyfunc.spark_udf` applies to a column; a nightly job can do both (`nightly.predict`).

# COMMAND ----------

place = f"{work}/labelling/model"
model.save(place, overwrite=True)
again = xf.load_model(place)
assert again.predict(texts).equals(model.predict(texts))
print(f"the model is in {place}")
