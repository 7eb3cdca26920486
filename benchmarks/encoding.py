"""Encoding with the bundled model on one core: PyTorch in float32 and bfloat16, OpenVINO in bfloat16 and int8.

    pip install openvino nncf
    python -m benchmarks.encoding [--work FOLDER] [--limit 1000] [--timed 48] [--max-length 96]

The transformer inside the sentence-transformers model is replaced by a compiled one; tokens, pooling and order of the
texts stay as they are. OpenVINO converts the weights that are there, without a network; int8 means weights and
activations, calibrated on training texts. Speed: CPU seconds of the same texts, each way right after float32. Quality:
the demo's texts, one fold, an untrained model, labels by their names. Written to benchmarks/results/encoding.md.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.one_fold import OneFold, Vectors, write_columns
from benchmarks.retrievers import ASPECTS
from fusion.types import Singles
from jobs.settings.dense import DenseSettings
from jobs.train_dense import base_encoder
from udfs.encode import Encoder, encode, load_encoder
from udfs.fold_data import read_rows, read_texts, role_texts

RESULTS = Path(__file__).parent / "results"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
CALIBRATION = 16
BASE = "torch, float32"
Encode = Callable[[list[str]], Singles]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default="work/encoding")
    parser.add_argument("--limit", type=int, default=1000)
    parser.add_argument("--timed", type=int, default=48)
    parser.add_argument("--max-length", type=int, default=96)
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    text = "\n".join(report(arguments)) + "\n"
    (RESULTS / "encoding.md").write_text(text)
    print(text)


def ways(encoder: Encoder, calibration: list[str]) -> dict[str, Encode]:
    """The ways to encode, by name."""
    import nncf
    import openvino

    def by_torch(precision: Any) -> Encode:
        return lambda texts: encode(load_encoder(encoder), texts, encoder.batch_size, precision)

    def converted() -> Any:
        model = _fresh(encoder)
        features = model.preprocess(["a short text", "another text, of more words"])
        example = {name: features[name] for name in INPUTS}
        return openvino.convert_model(_last_hidden(model[0].model), example_input=example)

    def by_openvino(network: Any, hint: str) -> Encode:
        properties = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": hint}
        request = openvino.Core().compile_model(network, "CPU", properties).create_infer_request()
        model = _fresh(encoder)
        model[0].model = _compiled(model[0].model.config, lambda inputs: request.infer(inputs)[0].copy())
        return lambda texts: encode(model, texts, encoder.batch_size)

    def calibrated(text: str) -> dict[str, Any]:
        features = load_encoder(encoder).preprocess([text])
        return {name: features[name].numpy() for name in INPUTS}

    dataset = nncf.Dataset(calibration, calibrated)
    kind = nncf.ModelType.TRANSFORMER
    int8 = nncf.quantize(converted(), dataset, model_type=kind, subset_size=len(calibration))
    return {
        BASE: by_torch("float32"),
        "torch, bfloat16": by_torch("bfloat16"),
        "OpenVINO, bfloat16": by_openvino(converted(), "bf16"),
        "OpenVINO, int8": by_openvino(int8, "f32"),
    }


def _fresh(encoder: Encoder) -> Any:
    """The model, loaded anew, since it is going to be changed."""
    load_encoder.cache_clear()
    model = load_encoder(encoder)
    load_encoder.cache_clear()
    return model


def _last_hidden(transformer: Any) -> Any:
    """The transformer as a module with plain inputs and one output."""
    import torch

    class LastHidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
            inputs = zip(INPUTS, (input_ids, attention_mask, token_type_ids), strict=True)
            return self.transformer(**dict(inputs)).last_hidden_state

    return LastHidden().eval()


def _compiled(config: Any, infer: Callable[[list[Any]], Any]) -> Any:
    """What stands in the place of the transformer."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    class Compiled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config, self.dtype, self.device = config, torch.float32, torch.device("cpu")

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any, **rest: Any) -> Any:
            out = infer([part.numpy() for part in (input_ids, attention_mask, token_type_ids)])
            return BaseModelOutput(last_hidden_state=torch.from_numpy(out))

    return Compiled()


def report(arguments: argparse.Namespace) -> Iterator[str]:
    """The table in Markdown."""
    data = OneFold(Path(arguments.work))
    counts = data.write(arguments.limit)
    encoder = base_encoder(DenseSettings(max_length=arguments.max_length))
    train = read_texts(data.source(), role_texts(data.source(), "train"))
    every = ways(encoder, train[:CALIBRATION])
    timed = train[-arguments.timed :]
    rates, alike = speeds(every, timed)
    yield f"# Encoding with {encoder.model}, {arguments.max_length} tokens, one thread"
    yield ""
    yield f"Speed: {len(timed)} texts of the demo in CPU seconds. Quality: {counts['test']:,} test texts of one fold of"
    yield f"{counts['texts']:,}, labels by their names, untrained."
    yield ""
    header = " | ".join(f"{group} {metric}@{k}" for group, metric, k in ASPECTS)
    yield f"| | texts/s | times float32 | mean cosine with float32 | {header} |"
    yield "|---|" + "---:|" * (3 + len(ASPECTS))
    bm25 = data.bm25()
    for name, way in every.items():
        vectors = test_vectors(data, name, way)
        found = data.figures(bm25, data.dense(vectors, ("name",), None))["dense"]
        shown = " | ".join(f"{value:.1f}" for value in found)
        rate, ratio = rates[name]
        yield f"| {name} | {rate:.0f} | {ratio:.2f} | {alike[name]:.4f} | {shown} |"


def speeds(every: dict[str, Encode], timed: list[str]) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:
    """Texts per second and the ratio to float32, and how alike the vectors are."""
    rates, alike = {}, {}
    for name, way in every.items():
        way(timed[:4])
        seconds, vectors = zip(*(_timed(some, timed) for some in (every[BASE], way)), strict=True)
        rates[name] = len(timed) / seconds[1], seconds[0] / seconds[1]
        alike[name] = float(np.mean((vectors[0] * vectors[1]).sum(axis=1)))
    return rates, alike


def _timed(way: Encode, texts: list[str]) -> tuple[float, Singles]:
    begin = time.process_time()
    vectors = way(texts)
    return time.process_time() - begin, vectors


def test_vectors(data: OneFold, name: str, way: Encode) -> Vectors:
    """The vectors of the test texts and of the labels' names."""
    ids = role_texts(data.source(), "test")
    words = read_rows(str(data.words), ["id", "text"])
    paths = []
    for what, numbers, texts in (
        ("texts", ids, read_texts(data.source(), ids)),
        ("labels", words["id"].to_numpy(), words["text"].to_pylist()),
    ):
        path = data.folder / f"{name.replace(', ', '-')}-{what}.parquet"
        write_columns(path, id=numbers, vector=list(way(texts)))
        paths.append(str(path))
    return Vectors(*paths)


if __name__ == "__main__":
    main()
