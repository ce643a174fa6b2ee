"""Models of transformers and stacks of `torch.nn`, as people have them, against PyTorch's reverse over reverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from eindiff.torch import grad, hessian, hvp

COMMON = {
    "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12, "vocab_size": 11,
    "attn_implementation": "eager", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
LONGEST = {"max_position_embeddings": 8}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
LANGUAGE = {  # configuration, and the layer whose Hessian is wanted
    "GPT2LMHeadModel": (
        {
            "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 8, "n_inner": 12, "vocab_size": 11,
            "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "attn_implementation": "eager",
            "bos_token_id": 1, "eos_token_id": 2,
        },
        "transformer.h.0.ln_1.weight",
    ),
    "LlamaForCausalLM": (COMMON | LONGEST, "model.layers.0.input_layernorm.weight"),
    "MistralForCausalLM": (COMMON | LONGEST | {"num_key_value_heads": 1, "sliding_window": 2}, "model.norm.weight"),
    "Qwen2ForCausalLM": (COMMON | LONGEST | {"num_key_value_heads": 2}, "model.layers.0.self_attn.q_proj.bias"),
    "BertForMaskedLM": (COMMON | LONGEST | NO_DROPOUT, "bert.encoder.layer.0.output.LayerNorm.weight"),
    "OPTForCausalLM": (
        COMMON | LONGEST | {"ffn_dim": 12, "word_embed_proj_dim": 8, "dropout": 0.0},
        "model.decoder.layers.0.fc1.bias",
    ),
    "T5ForConditionalGeneration": (
        {
            "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 1, "num_heads": 2, "vocab_size": 11, "pad_token_id": 0,
            "dropout_rate": 0.0, "decoder_start_token_id": 0, "attn_implementation": "eager",
        },
        "encoder.final_layer_norm.weight",
    ),
}  # fmt: skip
VISION = {
    "ViTForImageClassification": (
        COMMON | NO_DROPOUT | {"image_size": 4, "patch_size": 2, "num_channels": 1, "num_labels": 3},
        "classifier.weight",
    ),
    "ResNetForImageClassification": (
        {
            "num_channels": 1, "embedding_size": 4, "hidden_sizes": [4, 6], "depths": [1, 1], "layer_type": "basic",
            "num_labels": 3,
        },
        "classifier.1.weight",
    ),
}  # fmt: skip


class InDouble(TorchFunctionMode):
    """Models of transformers compute softmax, norms and losses in single precision; here all is in double."""

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        func = torch.Tensor.double if func is torch.Tensor.float else func
        return func(*map(_doubled, args), **{name: _doubled(value) for name, value in (kwargs or {}).items()})


def _doubled(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


def randomized(model: nn.Module) -> dict[str, Tensor]:
    """Parameters away from zeros and ones that models start with."""
    return {name: p.detach() + 0.1 * torch.randn_like(p) for name, p in model.double().eval().named_parameters()}


def compare(loss: Callable, parameters: dict[str, Tensor], layer: str) -> None:
    """The gradient, a product with the Hessian and the Hessian by one layer, with PyTorch's."""
    names, values = list(parameters), tuple(parameters.values())

    def of_list(*tensors: Tensor) -> Tensor:
        return loss(dict(zip(names, tensors, strict=True)))

    def by_layer(x: Tensor) -> Tensor:
        return loss({**parameters, layer: x})

    along = {name: torch.randn_like(p) for name, p in parameters.items()}
    with sdpa_kernel(SDPBackend.MATH):  # the only attention that PyTorch differentiates twice
        gradient = torch.autograd.functional.jacobian(of_list, values)
        product = torch.autograd.functional.hvp(of_list, values, tuple(along.values()))[1]
        block = torch.autograd.functional.hessian(by_layer, parameters[layer])
    assert close(grad(loss)(parameters), dict(zip(names, gradient, strict=True)))
    assert close({layer: hessian(by_layer)(parameters[layer])}, {layer: block})
    assert close(hvp(loss)(parameters, tangents=along), dict(zip(names, product, strict=True)))


def close(found: dict[str, Tensor], expected: dict[str, Tensor]) -> bool:
    assert list(found) == list(expected)
    assert max(float(x.abs().max()) for x in expected.values()) > 1e-5  # something is compared
    return all(bool((found[name] - x).abs().max() <= 1e-9 * (1 + x.abs().max())) for name, x in expected.items())


@pytest.fixture(autouse=True)
def _in_double_precision() -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


def hub(name: str, configuration: dict[str, Any]) -> nn.Module:
    """A model of transformers with random parameters, of which nothing is loaded."""
    model = getattr(transformers, name)
    return model(model.config_class(**configuration))


@pytest.mark.parametrize("name", LANGUAGE)
def test_language_models(name: str) -> None:
    configuration, layer = LANGUAGE[name]
    model = hub(name, configuration)
    parameters = randomized(model)
    words = torch.randint(3, 11, (2, 4))

    def loss(p: dict[str, Tensor]) -> Tensor:
        with InDouble():
            return functional_call(model, p, (), {"input_ids": words, "labels": words}).loss

    compare(loss, parameters, layer)


@pytest.mark.parametrize("name", VISION)
def test_vision_models(name: str) -> None:
    configuration, layer = VISION[name]
    model = hub(name, configuration)
    parameters = randomized(model)
    side = configuration.get("image_size", 8)
    images, labels = torch.randn(2, 1, side, side), torch.tensor([0, 2])

    def loss(p: dict[str, Tensor]) -> Tensor:
        with InDouble():
            return functional_call(model, p, (), {"pixel_values": images, "labels": labels}).loss

    compare(loss, parameters, layer)


def transformer(norm_first: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True, norm_first=norm_first)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


STACKS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "LSTM": (lambda: nn.LSTM(8, 3, 2, batch_first=True), "bias_hh_l1"),
    "LSTM both ways": (lambda: nn.LSTM(8, 2, bidirectional=True, batch_first=True), "bias_ih_l0_reverse"),
    "GRU": (lambda: nn.GRU(8, 3, 2, batch_first=True), "bias_hh_l0"),
    "RNN": (lambda: nn.RNN(8, 3, 2, batch_first=True), "weight_hh_l0"),
    "transformer": (lambda: transformer(False), "layers.0.norm1.weight"),
    "transformer, norms first": (lambda: transformer(True), "layers.1.linear1.bias"),
}


@pytest.mark.parametrize("name", STACKS)
def test_stacks_of_torch(name: str) -> None:
    make, layer = STACKS[name]
    model = make()
    parameters = randomized(model)
    x = torch.randn(2, 3, 8)

    def loss(p: dict[str, Tensor]) -> Tensor:
        found = functional_call(model, p, (x,))
        return torch.sin(found[0] if isinstance(found, tuple) else found).square().sum()

    compare(loss, parameters, layer)
