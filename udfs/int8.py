"""A model whose linear layers multiply in whole numbers of 8 bits, on a CPU that has instructions for it.

Weights are rounded once, to 255 steps per output; inputs at every call, to 256 steps per token. Everything else
(attention, normalisations, activations, sums) stays in 32 bits. PyTorch's part is oneDNN's product of matrices, which
adds up without rounding.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from fusion.errors import SetupError
from fusion.retrieval.contrastive import dense_package
from fusion.retrieval.int8 import quantized_rows, quantized_weights, restore


@cache
def int8_problem() -> str | None:
    """Why linear layers cannot multiply in 8 bits on this machine; None if they can."""
    torch = dense_package("torch")
    if torch.cuda.is_available():
        return "models are loaded to the GPU"
    supported = getattr(torch.cpu, "_is_vnni_supported", None)
    if supported is None or not supported():
        # Without these instructions, sums of two products would be cut off at 16 bits.
        return "this machine's CPU has no AVX-512 VNNI"
    if not hasattr(torch.ops.onednn, "qlinear_pointwise") or not hasattr(torch.ops.onednn, "qlinear_prepack"):
        return f"PyTorch {torch.__version__} was built without oneDNN's products in 8 bits"
    return None


def to_int8(model: Any) -> None:
    """Replace the linear layers of a model, which is then no longer trained."""
    problem = int8_problem()
    if problem is not None:
        raise SetupError(f"dense.precision int8: {problem}; choose auto, bfloat16 or float32")
    linear = dense_package("torch").nn.Linear
    # To the letter: what a model has made of the class may do more than multiply.
    for name, layer in [(name, layer) for name, layer in model.named_modules() if type(layer) is linear]:
        parent, _, own = name.rpartition(".")
        setattr(model.get_submodule(parent), own, _layer_type()(layer))


@cache
def _layer_type() -> Any:
    torch = dense_package("torch")

    class Int8Linear(torch.nn.Module):  # type: ignore[name-defined]
        """A linear layer with rounded weights and inputs."""

        def __init__(self, layer: Any) -> None:
            super().__init__()
            weights = layer.weight.detach().float().numpy()
            codes, step = quantized_weights(weights)
            self.in_features, self.out_features = layer.in_features, layer.out_features
            self.packed = torch.ops.onednn.qlinear_prepack(torch.from_numpy(codes), None)
            self.step = torch.from_numpy(step)
            self.zeros = torch.zeros(self.out_features, dtype=torch.int32)
            self.sums = codes.sum(axis=1, dtype="int32").astype("float32") * step
            bias = torch.zeros(self.out_features) if layer.bias is None else layer.bias.detach().float()
            self.bias = bias.numpy()

        def forward(self, inputs: Any) -> Any:
            rows = inputs.detach().reshape(-1, self.in_features).float().contiguous()
            low, high = rows.amin(1).numpy(), rows.amax(1).numpy()
            codes, step = quantized_rows(rows.numpy(), low, high)
            # Of the inputs: scale 1, zero point 0. Of the outputs: the same, in 32 bits, and nothing done to them.
            products = torch.ops.onednn.qlinear_pointwise(
                torch.from_numpy(codes), 1.0, 0, self.packed, self.step, self.zeros, None,
                1.0, 0, torch.float32, "none", [], "none",
            )  # fmt: skip
            restore(products.numpy(), low, step, self.sums, self.bias)
            return products.reshape(*inputs.shape[:-1], self.out_features)

    return Int8Linear
