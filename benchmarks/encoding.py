"""Encoding with the bundled model on one core: how fast PyTorch is in float32 and bfloat16, and OpenVINO.

    python -m benchmarks.encoding [--timed 128] [--max-length 96] [--batch 16] [--openvino]

CPU seconds of the same texts, each way right after float32, in turns; the best of three. With `--openvino` (pip install
openvino nncf), the transformer inside the sentence-transformers model is replaced by a compiled one; there, int8 means
weights and activations with scales that were found on other texts. Written to benchmarks/results/encoding.md.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fusion.types import Singles
from jobs.retrievers.vectors import base_encoder
from jobs.settings.built_in import DenseSettings
from tests.demo import demo_rows
from udfs.retrieval.encode import Encoder, encode, load_encoder

RESULTS = Path(__file__).parent / "results"
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
CALIBRATION = 16
PRECISIONS = ("float32", "bfloat16")
BASE = "torch, float32"
ROUNDS = 3
Encode = Callable[[list[str]], Singles]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timed", type=int, default=128)
    parser.add_argument("--max-length", type=int, default=96)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--openvino", action="store_true")
    arguments = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    text = "\n".join(report(arguments)) + "\n"
    (RESULTS / "encoding.md").write_text(text)
    print(text)


def precise(arguments: argparse.Namespace, precision: Any) -> Encoder:
    """The bundled model in a precision."""
    return base_encoder(DenseSettings(max_length=arguments.max_length, batch_size=arguments.batch, precision=precision))


def by_torch(encoder: Encoder) -> Encode:
    model = _fresh(encoder)
    return lambda texts: encode(model, texts, encoder.batch_size, encoder.precision)


def openvino_ways(encoder: Encoder, calibration: list[str]) -> dict[str, Encode]:
    """The ways to encode by OpenVINO, by name."""
    import nncf
    import openvino

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
        "OpenVINO, bfloat16": by_openvino(converted(), "bf16"),
        "OpenVINO, int8": by_openvino(int8, "f32"),
    }


def _fresh(encoder: Encoder) -> Any:
    """The model, loaded again, since it is going to be changed."""
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
    """What takes the place of the transformer."""
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
    texts = [row["text"] for row in demo_rows("texts", CALIBRATION + arguments.timed)]
    every = {f"torch, {precision}": by_torch(precise(arguments, precision)) for precision in PRECISIONS}
    if arguments.openvino:
        every |= openvino_ways(precise(arguments, "float32"), texts[:CALIBRATION])
    timed = texts[CALIBRATION:]
    rates, alike = speeds(every, timed)
    yield f"# Encoding with {precise(arguments, 'float32').model}, {arguments.max_length} tokens, one thread"
    yield ""
    yield f"Speed: {len(timed)} texts of the demo in CPU seconds, batches of {arguments.batch}."
    yield ""
    yield "| | texts/s | times float32 | mean cosine with float32 |"
    yield "|---|" + "---:|" * 3
    for name, (rate, ratio) in rates.items():
        yield f"| {name} | {rate:.0f} | {ratio:.2f} | {alike[name]:.4f} |"


def speeds(every: dict[str, Encode], timed: list[str]) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:
    """Texts per second and the ratio to float32, and how alike the vectors are."""
    rates, alike = {}, {}
    for name, way in every.items():
        way(timed[:4])
        rounds = [[_timed(some, timed) for some in (every[BASE], way)] for _ in range(ROUNDS)]
        base, own = (min(round[n][0] for round in rounds) for n in range(2))
        rates[name] = len(timed) / own, base / own
        (_, exact), (_, vectors) = rounds[0]
        alike[name] = float(np.mean((exact * vectors).sum(axis=1)))
    return rates, alike


def _timed(way: Encode, texts: list[str]) -> tuple[float, Singles]:
    begin = time.process_time()
    vectors = way(texts)
    return time.process_time() - begin, vectors


if __name__ == "__main__":
    main()
