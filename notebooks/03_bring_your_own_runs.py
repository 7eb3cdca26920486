# Databricks notebook source
# MAGIC %md
# MAGIC # Bring your own runs
# MAGIC
# MAGIC You have rankings of two or more retrievers, and the relevant labels. Nothing else is needed: no texts, no
# MAGIC folds, and ids may be any strings. This notebook evaluates all fusions of three retrievers, asks whether the
# MAGIC third one is worth its cost, and writes the fused rankings and a report.
# MAGIC
# MAGIC Give your runs as `name=source,name=source,...`, where a source is a TREC run file, a Parquet path or a catalog
# MAGIC table (`catalog.schema.table`), and the relevant labels as a TREC qrels file or a table. Without them, three
# MAGIC small runs are made here from the shipped texts.

# COMMAND ----------

# MAGIC %pip install --find-links /Volumes/main/xmtc_fusion_dev/files/dist xmtc-fusion[report]

# COMMAND ----------

# MAGIC %restart_python

# COMMAND ----------

from pathlib import Path

import pandas as pd

import xmtc_fusion as xf
from xmtc_fusion.notebook import files_folder, show, show_figure, show_page, widget, work_folder

runs = dict(run.split("=") for run in widget("runs", "", "Runs: name=source,...").split(",") if run)
judgements = widget("qrels", "", "Judgements: a TREC qrels file or a table")
work = f"{work_folder()}/own"
examples = files_folder("conf/datasets/debtags.yaml", work)
Path(work).mkdir(parents=True, exist_ok=True)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Three retrievers, three formats
# MAGIC
# MAGIC In this example, the tags of half of the texts are known; those of the other half are to be found.
# MAGIC
# MAGIC - `words` scores a label by the words that a text shares with known texts: a table with one row per candidate.
# MAGIC - `names` looks for the words of a label's name in the text: a TREC run file.
# MAGIC - `popular` does not look at the text at all: a dictionary, like the relevant labels.

# COMMAND ----------

if not runs:
    packages = pd.read_json(f"{examples}/texts.jsonl.gz", lines=True).query("text_id % 25 == 0")
    packages["word"] = packages.text.str.lower().str.findall(r"\w+").map(lambda words: sorted(set(words)))
    packages["known"] = packages.text_id % 50 == 0
    packages["text_id"] = packages.text.str.partition(":")[0]
    known = packages[packages.known].explode("labels").rename(columns={"labels": "label_id"})
    asked = packages[~packages.known]
    questions = asked[["text_id", "word"]].explode("word")

    counts = known[["label_id", "word"]].explode("word").value_counts().rename("count").reset_index()
    counts["score"] = counts["count"] / counts.groupby("word")["count"].transform("sum")
    words = questions.merge(counts, on="word").groupby(["text_id", "label_id"]).score.sum()
    words = words.groupby("text_id", group_keys=False).nlargest(20).reset_index()
    show(words, rows=3)

    labels = pd.read_json(f"{examples}/labels.jsonl.gz", lines=True)
    labels["word"] = labels.name.str.lower().str.findall(r"\w+").map(lambda words: sorted(set(words)))
    labels["share"] = 1 / labels.word.str.len()
    matches = questions.merge(labels[["label", "word", "share"]].explode("word"), on="word")
    names = matches.groupby(["text_id", "label"]).share.sum().groupby("text_id", group_keys=False).nlargest(20)
    lines = [f"{text} Q0 {label} 0 {score:.6f} names" for (text, label), score in names.items()]
    Path(work, "names.trec").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines[:3]))

    popular = dict.fromkeys(asked.text_id, known.label_id.value_counts().nlargest(20).astype(float).to_dict())
    judgements = dict(zip(asked.text_id, asked.labels, strict=True))
    runs = {"words": words, "names": f"{work}/names.trec", "popular": popular}

# COMMAND ----------

# MAGIC %md
# MAGIC ## Evaluate
# MAGIC
# MAGIC Without folds there is no deviation over folds, and the tests over texts decide. `pareto` makes the most
# MAGIC frequent fifth of the labels `head`. All of this is small and local, so no Spark session is started; files of
# MAGIC more than 100 MB and catalog tables go to Spark automatically.

# COMMAND ----------

metrics = ["ndcg@1", "ndcg@10", "precision@10"]
result = xf.evaluate(judgements, runs, metrics=metrics, label_groups="pareto", dataset="own")
print(result.table())
show_figure(result.plot("grid"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Is the third retriever worth it?
# MAGIC
# MAGIC With `grid.subsets` every cell is also evaluated over every pair of retrievers, in the same pass. The figure
# MAGIC shows what each one adds to the two others, with its 95% interval: left of zero the fusion is better without it,
# MAGIC since a weak retriever can cost more than it finds. The best cell of all, with the retrievers that it is best
# MAGIC with, is then fused for use elsewhere. The result has the type of the first run: here a pandas table.

# COMMAND ----------

every_subset = xf.evaluate(judgements, runs, metrics="ndcg@10", dataset="own", settings={"grid.subsets": "all"})
show_figure(every_subset.plot("additions"))
show(every_subset.details["additions"].to_pandas().nlargest(5, "value"))

choice = every_subset.best("ndcg@10").cell
fused = xf.fuse(runs, str(choice), top=10)
print(choice)
show(fused, rows=3)

# COMMAND ----------

# MAGIC %md
# MAGIC ## A report, and a broken run
# MAGIC
# MAGIC The report is one page that needs no network; `save` keeps the figures themselves. A broken run stops the job
# MAGIC with a message that names the file and the first offending lines: no figure is computed from part of the data.
# MAGIC
# MAGIC Next: `04_nightly_review` looks at evaluations that are repeated every night.

# COMMAND ----------

result.save(f"{work}/results", overwrite=True)
page = result.report(f"{work}/report", overwrite=True)
show_page(page)

broken = Path(work, "broken.trec")
broken.write_text("a2ps Q0 works-with::text 1 0.9 x\na2ps Q0 use::printing 2 high x\n", encoding="utf-8")
try:
    xf.evaluate(judgements, {**runs, "broken": str(broken)})
except xf.InputError as error:
    message = str(error)
    print(message)
