# Databricks notebook source
# MAGIC %md
# MAGIC # Label new texts
# MAGIC
# MAGIC The other notebooks compare fusions on texts whose labels are known. Here a model learns from all of these and
# MAGIC then labels new texts, with probabilities and the reasons for each label.
# MAGIC
# MAGIC `bm25` finds labels by similar training texts, `static` by vectors of words and of the labels' names. Neither
# MAGIC needs Spark or a GPU. Give your own configuration to fit a model on your texts.

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
# MAGIC Fused scores are not probabilities. `fit` learns curves from score to probability on validation texts, which the
# MAGIC retrievers had not seen. For each half of these texts, the chart compares probabilities, by curves from the
# MAGIC other half, with the share of labels that are relevant: the bars of a pair should have the same height. The
# MAGIC threshold and the largest number of labels per text are chosen on the same texts, for the objective above.

# COMMAND ----------

figures = model.validation
bins = pd.DataFrame(figures["reliability"])
bins = bins.assign(candidates=bins.rows.map("{:,}".format), relevant=bins.frequency)
chart(bins, "candidates", ["probability", "relevant"], "Probabilities, and how often they are right")
made = figures["assignment"]
print(f"calibration error {100 * figures['calibration_error']:.1f} points")
print(
    f"assigned: {made['labels_per_text']:.1f} labels per text, precision {made['precision']:.2f}, F1 {made['f1']:.2f}"
)

# COMMAND ----------

# MAGIC %md
# MAGIC ## New texts
# MAGIC
# MAGIC For a table (or a list) of texts, `predict` returns a table with one row per text and label; for a single text,
# MAGIC a list. A text without a word that the retrievers know gets no label.

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
# MAGIC For each label: its rank, score and normalised score in the list of every retriever, how these were fused, and
# MAGIC the nearest training texts that carry it.

# COMMAND ----------

explanation = model.explain(texts.text[0], top=5)
print(explanation)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Keep it, and use it elsewhere
# MAGIC
# MAGIC The folder can be moved and loaded on any machine. For many texts, use the job `xmtc-fusion predict --model
# MAGIC MODEL --texts table:catalog.schema.texts --format parquet --output OUT`, which uses Spark if the texts need it.
# MAGIC `model.log_to_mlflow(registered="NAME")` makes it a version of a registered model, which
# MAGIC `mlflow.pyfunc.spark_udf` applies to a column; a nightly job can do both (`nightly.predict`).

# COMMAND ----------

place = f"{work}/labelling/model"
model.save(place, overwrite=True)
again = xf.load_model(place)
assert again.predict(texts).equals(model.predict(texts))
print(f"the model is in {place}")
