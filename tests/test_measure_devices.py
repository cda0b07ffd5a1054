"""CUDA and MPS, driven through stand-ins that answer as torch.cuda and torch.mps; the real ones if present."""

import math
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from memory_budget import measure
from memory_budget.architectures import Transformer
from memory_budget.measure.devices import Device
from memory_budget.measure.measurement import total

GPT = Transformer(
    name="gpt", family="gpt2", vocabulary=300, hidden=64, layers=3, heads=4, kv_heads=4, head_size=16,
    ffn=256, context=64, attention_bias=True, output_bias=True, mlp_bias=True,
)  # fmt: skip
OTHER_BYTES = 5 * 10**6  # what somebody else holds on the device


class StandIn(TorchDispatchMode):
    """An allocator that is not there: counts live CPU tensors in blocks of 512 bytes, as CUDA's does.

    Answers as torch.cuda and as torch.mps do, which names differ but not what they mean."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.now = self.most = OTHER_BYTES
        for tensor in tensors:
            self.hold(tensor)

    def hold(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata not in self.sizes:
            self.sizes[storage._cdata] = size = 512 * math.ceil(storage.nbytes() / 512)
            self.now += size
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

    def memory_allocated(self) -> int:
        return self.now

    def max_memory_allocated(self) -> int:
        return self.most

    def reset_peak_memory_stats(self) -> None:
        self.most = self.now

    def memory_reserved(self) -> int:
        return 2 * self.now

    current_allocated_memory = memory_allocated
    driver_allocated_memory = memory_reserved


def measured_on(kind: str, **settings) -> measure.Measurement:
    model = measure.Case(model=GPT).build()
    with StandIn(*model.parameters()) as stand_in:
        place = Device(kind=kind, name=f"stand-in {kind}", api=stand_in, place="cpu")
        return measure.training_step(model, batch=4, sequence=48, device=place, **settings)


@pytest.fixture(scope="module")
def counted() -> measure.Measurement:
    return measure.training_step(measure.Case(model=GPT).build(), batch=4, sequence=48)


@pytest.fixture(scope="module")
def on_cuda() -> measure.Measurement:
    return measured_on("cuda")


def test_cuda_tells_the_peak_that_was_counted_and_leaves_out_what_others_hold(on_cuda, counted):
    # blocks of 512 bytes make the allocator's figure a little larger
    assert counted.peak_bytes <= on_cuda.peak_bytes < counted.peak_bytes * 1.02
    assert on_cuda.peak_moment == counted.peak_moment == "backward peak"


@pytest.mark.parametrize(
    "moment", ["after loading", "end of forward", "backward peak", "before step", "inside step", "after step"]
)
def test_cuda_tells_each_moment(on_cuda, counted, moment):
    assert total(on_cuda.moments[moment]) == pytest.approx(total(counted.moments[moment]), rel=0.02)
    for name in ("weights", "gradients", "first_moment", "second_moment"):
        if moment != "backward peak":
            assert on_cuda.moments[moment][name] == counted.moments[moment][name]


def test_cuda_finds_activations_by_difference(on_cuda, counted):
    told = on_cuda.moments["backward peak"]["activations"]
    assert told == pytest.approx(counted.moments["backward peak"]["activations"], rel=0.02)


def test_cuda_tells_what_the_allocator_reserved(on_cuda):
    assert on_cuda.reserved_bytes > on_cuda.peak_bytes
    assert "reserved" in str(on_cuda)
    assert not on_cuda.sampled


def test_cuda_predicts_with_foreach_as_torch_does_there():
    measured = measured_on("cuda", implementation="foreach")
    assert measured.predicted.setup.device == "cuda"
    # one value a parameter, and the blocks' rounding of each of some 200 tensors
    assert measured.moments["inside step"]["temporaries"] == pytest.approx(4 * GPT.parameters, rel=0.1)


def test_a_part_that_cuda_had_allocated_before_is_not_counted_twice():
    model = measure.Case(model=GPT).build()
    model(*measure.step.example_batch(300, 2, 8)).backward()
    with StandIn(*model.parameters(), *(p.grad for p in model.parameters())) as stand_in:
        place = Device(kind="cuda", name="stand-in", api=stand_in, place="cpu")
        measured = measure.training_step(model, batch=1, sequence=8, device=place)
    assert measured.moments["before step"]["gradients"] == 4 * GPT.parameters
    assert measured.moments["after step"]["temporaries"] < 40_000


def test_mps_samples_and_says_so(counted):
    measured = measured_on("mps")
    assert measured.sampled
    assert "samples" in str(measured)
    assert ", sampled" in str(measured)
    for moment in ("after loading", "before step", "after step"):
        assert total(measured.moments[moment]) == pytest.approx(total(counted.moments[moment]), rel=0.02)
    # at each gradient's arrival there is a look, and between the looks memory may have been higher
    assert counted.peak_bytes * 0.8 < measured.peak_bytes <= counted.peak_bytes * 1.02


class NoPeak:
    """An MPS that has the two figures of torch.mps and nothing else."""

    def current_allocated_memory(self) -> int:
        return 10**9

    def driver_allocated_memory(self) -> int:
        return 2 * 10**9


def test_mps_is_asked_for_nothing_that_it_does_not_have():
    place = Device(kind="mps", name="stand-in", api=NoPeak(), place="cpu")
    measured = measure.training_step(measure.Case(model=GPT).build(), batch=1, sequence=8, device=place)
    assert measured.reserved_bytes == 2 * 10**9


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory. Tried"), RuntimeError("MPS backend out of memory")]
)
def test_running_out_of_memory_is_one_line_with_what_to_do(error):
    def runs_out(model, batch):
        raise error

    place = Device(kind="mps", name="Apple GPU", api=NoPeak(), place="cpu")
    with pytest.raises(RuntimeError, match=r"^Apple GPU ran out of memory: take a smaller batch") as told:
        measure.training_step(
            measure.Case(model=GPT).build(), batch=1, sequence=8, device=place, loss=runs_out
        )
    assert "\n" not in str(told.value)


def test_another_error_stays_what_it_is():
    def breaks(model, batch):
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        measure.training_step(measure.Case(model=GPT).build(), batch=1, sequence=8, loss=breaks)


def torch_with(cuda: bool, mps: bool) -> SimpleNamespace:
    cuda_api = SimpleNamespace(
        is_available=lambda: cuda,
        current_device=lambda: 0,
        get_device_name=lambda: "NVIDIA H200",
        get_device_properties=lambda _: SimpleNamespace(total_memory=141 * 10**9),
    )
    return SimpleNamespace(
        cuda=cuda_api,
        mps=SimpleNamespace(recommended_max_memory=lambda: 17 * 10**9),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps)),
    )


@pytest.mark.parametrize(
    ("cuda", "mps", "kind", "memory"),
    [
        (True, True, "cuda", 141),
        (True, False, "cuda", 141),
        (False, True, "mps", 17),
        (False, False, "cpu", None),
    ],
)
def test_the_device_is_cuda_else_mps_else_cpu(cuda, mps, kind, memory):
    found = measure.device(torch_module=torch_with(cuda, mps))
    assert found.kind == kind
    assert kind in found.name.lower()
    if memory:
        assert found.memory_bytes == memory * 10**9


def test_a_device_that_is_not_there_or_has_no_name_is_refused():
    with pytest.raises(RuntimeError, match="no cuda device here: use mps or cpu"):
        measure.device("cuda", torch_module=torch_with(cuda=False, mps=True))
    with pytest.raises(ValueError, match="allowed are cuda, mps, cpu"):
        measure.device("gpu")


def test_a_torch_without_mps_is_no_trouble():
    bare = torch_with(cuda=False, mps=False)
    del bare.backends.mps
    assert measure.device(torch_module=bare).kind == "cpu"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("recipe", ["fp32", "mixed", "autocast", "pure-bf16"])
def test_a_real_cuda_step_is_near_its_prediction(recipe):
    case = measure.Case(settings={"batch": 4, "sequence": 128, "device": "cuda", "recipe": recipe})
    measured = case.measure_apart()
    assert measured.device.startswith("CUDA")
    assert abs(measured.difference_percent) < 5
    after, told = measured.moments["after step"], measured.predicted.moments["after step"]
    for name in ("weights", "gradients", "first_moment", "second_moment"):
        assert after[name] == pytest.approx(told[name], rel=0.001)


@pytest.mark.mps
@pytest.mark.skipif(not measure.devices.has_mps(), reason="no MPS device here")
def test_a_real_mps_step_is_sampled():
    measured = measure.Case(settings={"batch": 4, "sequence": 64, "device": "mps"}).measure_apart()
    assert measured.sampled
    assert measured.moments["after step"]["weights"] == measured.predicted.moments["after step"]["weights"]
