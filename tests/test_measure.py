"""The measured step: counted bytes against sums by hand, an independent count, and the prediction."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from memory_budget import measure
from memory_budget.architectures import Transformer
from memory_budget.measure.measurement import MOMENTS, total
from memory_budget.measure.small_gpt import SmallGPT
from memory_budget.palette import CLASS_KEYS

GPT = Transformer(
    name="gpt", family="gpt2", vocabulary=300, hidden=32, layers=2, heads=4, kv_heads=4, head_size=8,
    ffn=128, context=64, attention_bias=True, output_bias=True, mlp_bias=True,
)  # fmt: skip
LLAMA = Transformer(
    name="llama", family="llama", vocabulary=300, hidden=32, layers=3, heads=4, kv_heads=2, head_size=8,
    ffn=88, gated=True, tied=False, norm="rmsnorm",
)  # fmt: skip


class LiveTensors(TorchDispatchMode):
    """An independent count of live bytes: every storage an operation returns, until it dies."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        super().__init__()
        self.alive = weakref.WeakSet()
        self.sizes: dict[int, int] = {}
        self.now = self.most = 0
        for tensor in tensors:
            self.hold(tensor)

    def hold(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self.sizes:
            self.sizes[storage._cdata] = storage.nbytes()
            self.now += storage.nbytes()
            weakref.finalize(storage, self.drop, storage._cdata)

    def drop(self, address: int) -> None:
        self.now -= self.sizes.pop(address)

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.hold(leaf)
        self.most = max(self.most, self.now)
        return result


def independent_peak(model: nn.Module, data: tuple[torch.Tensor, ...]) -> int:
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    with LiveTensors(*model.parameters(), *data) as live:
        for _ in range(2):
            model(*data).backward()
            optimizer.step()
            optimizer.zero_grad()
    return live.most


def build(shape: Transformer = GPT, **choices) -> nn.Module:
    return measure.Case(model=shape, **choices).build()


@pytest.mark.parametrize("shape", [GPT, LLAMA], ids=lambda shape: shape.name)
def test_the_peak_is_what_an_independent_count_of_live_tensors_finds(shape):
    measured = measure.training_step(build(shape), batch=3, sequence=20)
    data = measure.step.example_batch(shape.vocabulary, 3, 20)
    assert measured.peak_bytes == independent_peak(build(shape), data)


def test_states_are_the_bytes_counted_by_hand():
    parameters = GPT.parameters
    measured = measure.training_step(build(), batch=1, sequence=8)
    assert sum(p.numel() for p in build().parameters()) == parameters
    held = measured.moments["after step"]
    assert held["weights"] == held["gradients"] == held["second_moment"] == 4 * parameters
    tensors = len(list(build().parameters()))
    assert held["first_moment"] == 4 * parameters + 4 * tensors  # one step counter a tensor
    assert held["frozen_weights"] == held["master_copy"] == 0
    assert measured.moments["after loading"] == {**dict.fromkeys(CLASS_KEYS, 0), "weights": 4 * parameters}


def test_the_small_gpt_has_the_parameters_that_its_name_is_said_to_have():
    model = measure.small_gpt()
    assert sum(p.numel() for p in model.parameters()) == model.shape.parameters


def test_adamw_foreach_needs_one_more_copy_of_the_parameters_inside_the_step():
    measured = measure.training_step(build(), batch=1, sequence=8, implementation="foreach")
    assert measured.peak_moment == "inside step"
    assert measured.peak_bytes / GPT.parameters == pytest.approx(20, rel=0.03)


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [("fp32", 16), ("mixed", 16), ("no-master", 12), ("pure-bf16", 8), ("autocast", 16)],
)
def test_each_regime_keeps_its_bytes_after_the_step(recipe, expected):
    measured = measure.training_step(build(), batch=1, sequence=8, recipe=recipe)
    assert total(measured.moments["after step"]) / GPT.parameters == pytest.approx(expected, rel=0.005)


def test_mixed_precision_keeps_two_four_two_four_four():
    held = measure.training_step(build(), batch=1, sequence=8, recipe="mixed").moments["after step"]
    each = {name: round(size / GPT.parameters, 1) for name, size in held.items() if size > 1000}
    assert each == {
        "weights": 2, "master_copy": 4, "gradients": 2, "first_moment": 4, "second_moment": 4,
    }  # fmt: skip


def test_the_mixed_optimizer_trains_like_torchs_adamw():
    torch.manual_seed(0)
    wide, narrow = (nn.Parameter(torch.full((8,), 1.0)) for _ in range(2))
    narrow.data = narrow.data.bfloat16()
    theirs = torch.optim.AdamW([wide], lr=1e-3)
    ours = measure.optimizers.MasterAdamW([narrow], lr=1e-3)
    for _ in range(5):
        gradient = torch.randn(8).bfloat16()
        wide.grad, narrow.grad = gradient.float(), gradient.clone()
        theirs.step()
        ours.step()
    torch.testing.assert_close(ours.state[narrow]["master"], wide.data, rtol=1e-5, atol=1e-6)


def test_accumulation_holds_gradients_beside_the_casts_of_the_next_forward():
    once = measure.training_step(build(), batch=1, sequence=8, recipe="autocast")
    again = measure.training_step(build(), batch=1, sequence=8, recipe="autocast-accumulate")
    grown = total(again.moments["end of forward"]) - total(once.moments["end of forward"])
    assert grown == 4 * GPT.parameters


def test_the_second_step_peaks_higher_than_the_first():
    measured = measure.training_step(build(), batch=8, sequence=64)
    assert measured.peak_moment == "backward peak"
    state = measured.moments["after step"]
    grown = measured.peak_bytes - measured.first_step_peak_bytes
    assert grown == state["first_moment"] + state["second_moment"]


def test_freezing_and_adapting_trains_the_adapter_alone():
    model = measure.freeze_and_adapt(build(), rank=4)
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    assert all(name.endswith(("down.weight", "up.weight")) for name in trained)
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == 2 * 4 * (32 + 96)
    before = {name: p.clone() for name, p in model.named_parameters()}
    measured = measure.training_step(model, batch=2, sequence=16)
    moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert moved <= set(trained)
    assert moved
    assert measured.moments["after step"]["frozen_weights"] == 4 * GPT.parameters


def test_an_adapter_says_the_same_as_the_frozen_model_before_it_is_trained():
    data = measure.step.example_batch(300, 2, 16)
    plain, adapted = build()(*data), measure.freeze_and_adapt(build(), rank=4, targets="all-linear")(*data)
    assert torch.equal(plain, adapted)


@pytest.mark.parametrize("targets", ["all-linear", "attention", "mlp", ("q_proj", "v_proj"), "down_proj"])
@pytest.mark.parametrize("shape", [GPT, LLAMA], ids=lambda shape: shape.name)
def test_targets_are_understood_for_both_families(shape, targets):
    model = measure.freeze_and_adapt(build(shape), rank=2, targets=targets)
    measured = measure.training_step(model, batch=1, sequence=8)
    assert measured.difference_percent == pytest.approx(0, abs=0.1)


def test_checkpointing_changes_memory_and_not_the_gradients():
    data = measure.step.example_batch(300, 2, 32)
    peaks, gradients = [], []
    for how in ("none", "selective", "full"):
        model = build(attention="scores", checkpointing=how)
        model(*data).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
        peaks.append(
            measure.training_step(
                build(attention="scores", checkpointing=how), batch=8, sequence=64
            ).peak_bytes
        )
    torch.testing.assert_close(gradients[0], gradients[1])
    torch.testing.assert_close(gradients[0], gradients[2])
    assert peaks[0] > peaks[1] > peaks[2]


def test_kept_scores_and_sdpa_compute_the_same():
    data = measure.step.example_batch(300, 2, 32)
    for shape in (GPT, LLAMA):
        torch.testing.assert_close(build(shape)(*data), build(shape, attention="scores")(*data))


CASES = [
    {},
    {"recipe": "mixed"},
    {"recipe": "autocast"},
    {"recipe": "autocast-accumulate"},
    {"recipe": "pure-bf16", "set_to_none": False},
    {"micro_batches": 3},
    {"optimizer": "sgd"},
    {"optimizer": "momentum"},
    {"optimizer": "lion"},
    {"optimizer": "adafactor"},
    {"optimizer": "muon"},
    {"optimizer": "amsgrad", "implementation": "foreach"},
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("shape", [GPT, LLAMA], ids=lambda shape: shape.name)
def test_the_prediction_is_within_three_per_cent_and_states_within_a_thousandth(shape, case):
    measured = measure.training_step(build(shape), batch=2, sequence=24, **case)
    assert abs(measured.difference_percent) < 3
    for moment in ("before step", "after step"):
        told = measured.predicted.moments[moment]
        for name in ("weights", "master_copy", "gradients", "first_moment", "second_moment"):
            assert told[name] == pytest.approx(measured.moments[moment][name], rel=0.001)


def test_the_same_step_is_counted_the_same_each_time():
    def once():
        measured = measure.training_step(build(checkpointing="full"), batch=2, sequence=16)
        return measured.moments, measured.timeline

    assert once() == once()


def test_the_timeline_runs_through_both_steps_and_holds_the_peak():
    measured = measure.training_step(build(), batch=2, sequence=16)
    assert list(measured.moments) == list(MOMENTS)
    labels = [label for label, _ in measured.timeline]
    order = [f"step {n} {phase}" for n in (1, 2) for phase in ("forward", "backward", "step")]
    places = [next(i for i, label in enumerate(labels) if label.startswith(part)) for part in order]
    assert places == sorted(places)
    assert max(total(held) for _, held in measured.timeline) == measured.peak_bytes
    assert all(tuple(held) == CLASS_KEYS for _, held in measured.timeline)
    assert all(size >= 0 for _, held in measured.timeline for size in held.values())


def test_any_module_optimizer_and_batch_can_be_measured():
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 3))
    data = {"input": torch.ones(5, 10)}
    measured = measure.training_step(
        model,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        batch=data,
        loss=lambda module, batch: module(**batch).square().mean(),
    )
    parameters = 10 * 20 + 20 + 20 * 3 + 3
    held = measured.moments["after step"]
    assert held["weights"] == held["gradients"] == held["first_moment"] == 4 * parameters
    assert held["second_moment"] == 0
    assert held["activations"] == 5 * 10 * 4
    assert measured.predicted is None


def test_of_another_module_the_states_are_predicted_and_the_peak_is_not():
    model = nn.Linear(100, 100)
    measured = measure.training_step(model, batch=(torch.ones(2, 100),), loss=lambda m, b: m(*b).sum())
    assert measured.difference_percent is None
    assert measured.differences_percent["weights"] == pytest.approx(0)
    assert "activations" not in measured.differences_percent


class GivesAnOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 1)

    def forward(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": self.inner(rows).mean(), "logits": self.inner(rows)}


def test_a_loss_is_found_in_what_a_model_gives_back():
    measured = measure.training_step(GivesAnOutput(), batch={"rows": torch.ones(2, 4)})
    assert measured.moments["after step"]["weights"] == 5 * 4


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"recipe": "fp8"}, "recipe is 'fp8'"),
        ({"optimizer": "shampoo"}, "optimizer is 'shampoo'"),
        ({"implementation": "fast"}, "implementation is 'fast'"),
        ({"batch": 0}, "batch is 0"),
        ({"sequence": 65}, "1 to 64"),
        ({"micro_batches": 0}, "micro_batches is 0"),
        ({"recipe": "mixed", "optimizer": "sgd"}, "adamw only"),
        ({"adapter_precision": "fp64"}, "adapter_precision is 'fp64'"),
        ({"device": "tpu"}, "device is 'tpu'"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_what_is_not_offered_is_refused_in_one_line(settings, words):
    with pytest.raises(ValueError, match=words) as refused:
        measure.training_step(build(), **settings)
    assert "\n" not in str(refused.value)


def test_wrong_adapters_and_models_are_refused():
    with pytest.raises(ValueError, match="1 to 32"):
        measure.freeze_and_adapt(build(), rank=33)
    with pytest.raises(ValueError, match="z_proj"):
        measure.freeze_and_adapt(build(), targets="z_proj")
    with pytest.raises(ValueError, match="family is 'llama'"):
        SmallGPT(LLAMA)
    with pytest.raises(ValueError, match="attention is 'none'"):
        SmallGPT(GPT, attention="none")
    frozen = build().requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter is trainable"):
        measure.training_step(frozen)
    with pytest.raises(ValueError, match="pass batch as tensors"):
        measure.training_step(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="no scalar loss"):
        measure.training_step(nn.Linear(2, 2), batch=(torch.ones(1, 2),))


def test_a_measurement_reads_as_a_table_for_people_and_for_screen_readers():
    measured = measure.training_step(build(), batch=2, sequence=16)
    assert str(measured).startswith("A training step on CPU: ")
    html = measured._repr_html_()
    assert 'role="table"' in html
    assert "<caption>A training step on CPU" in html
    assert html.count('scope="row"') == len(measured.rows())
    assert (
        "<script"
        not in measure.Measurement(device="<script>", moments=measured.moments, timeline=[])._repr_html_()
    )


def test_nothing_of_a_step_is_left_behind():
    model = build()
    measure.training_step(model, batch=2, sequence=16)
    assert all(p.grad is None for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())
    gc.collect()


def test_a_step_in_its_own_process_counts_the_same():
    case = measure.Case(model=GPT, lora_rank=2, settings={"batch": 2, "sequence": 16})
    assert case.measure_apart().moments == case.measure().moments


def test_an_error_in_its_own_process_comes_back():
    with pytest.raises(ValueError, match="recipe is 'fp8'"):
        measure.Case(model=GPT, settings={"recipe": "fp8"}).measure_apart()
