"""The stepper: its numbers are torch's, its bytes the budget's, its words follow the slider."""

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_budget import budget, stepper
from memory_budget.stepper import scene, walk
from memory_budget.stepper.walk import Model

SVG = "{http://www.w3.org/2000/svg}"
numbers = st.floats(-5, 5).filter(lambda value: abs(value) > 0.01)


def lit(picture) -> set[str]:
    root = ElementTree.fromstring(picture.svg)
    return {g.get("data-actor") for g in root.iter(f"{SVG}g") if g.get("data-lit") == "1"}


def bar(picture) -> dict[str, int]:
    root = ElementTree.fromstring(picture.svg)
    groups = [g for g in root.iter(f"{SVG}g") if g.get("data-class")]
    return {g.get("data-class"): int(g.get("data-bytes")) for g in groups}


# ---------------------------------------------------------------- numbers


def torch_step(model: Model, optimizer: str) -> dict[str, tuple[float, ...]]:
    """The same step by torch, in double precision."""
    torch = pytest.importorskip("torch")
    v, c, w, b = (
        torch.tensor(value, dtype=torch.float64, requires_grad=trained)
        for value, trained in ((model.v, False), (model.c, False), (model.w, True), (model.b, True))
    )
    rate = model.learning_rate
    made = {
        "sgd": lambda: torch.optim.SGD([w, b], lr=rate),
        "momentum": lambda: torch.optim.SGD([w, b], lr=rate, momentum=0.9),
        "adam": lambda: torch.optim.Adam([w, b], lr=rate),
    }[optimizer]()
    loss = (w * (v * model.x + c) + b - model.expected) ** 2
    loss.backward()
    assert v.grad is None
    assert c.grad is None
    gradients = (w.grad.item(), b.grad.item())
    made.step()
    names = {"sgd": (), "momentum": ("momentum_buffer",), "adam": ("exp_avg", "exp_avg_sq")}[optimizer]
    moments = tuple((made.state[w][name].item(), made.state[b][name].item()) for name in names)
    return {"loss": (loss.item(),), "gradients": gradients, "after": (w.item(), b.item()), "moments": moments}


@given(v=numbers, c=numbers, w=numbers, b=numbers, x=numbers, expected=numbers)
@pytest.mark.parametrize("optimizer", walk.OPTIMIZERS)
def test_loss_gradients_states_and_new_values_are_torch_s(optimizer, v, c, w, b, x, expected):
    model = Model(v=v, c=c, w=w, b=b, x=x, expected=expected)
    ours, theirs = walk.compute(model, optimizer), torch_step(model, optimizer)
    assert ours.loss == pytest.approx(theirs["loss"][0], rel=1e-9, abs=1e-12)
    assert ours.gradients == pytest.approx(theirs["gradients"], rel=1e-9, abs=1e-12)
    assert ours.after == pytest.approx(theirs["after"], abs=1e-9)
    assert len(ours.moments) == len(theirs["moments"])
    for mine, other in zip(ours.moments, theirs["moments"], strict=True):
        assert mine == pytest.approx(other, rel=1e-9, abs=1e-12)


def test_the_model_of_the_lesson_gives_the_numbers_of_the_lesson():
    n = walk.compute(Model(), "sgd")
    assert (n.output, n.loss, n.gradients) == (5, 4, (-8, -4))
    assert n.after == pytest.approx((2.4, 1.2))


def test_an_unknown_optimizer_is_refused_with_the_names_of_the_known():
    with pytest.raises(ValueError, match=r"one of sgd, momentum, adam, not 'lion'"):
        walk.compute(Model(), "lion")


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("optimizer", walk.OPTIMIZERS)
def test_states_are_the_budget_s_bytes_for_two_trained_and_two_frozen(optimizer):
    kept = {key: size for key, size in budget.terms(2, 2, "fp32", optimizer).items() if size}
    assert dict(walk.training(Model(), optimizer)[6].held) == kept


def test_with_adam_the_bar_is_longest_when_the_optimizer_has_made_its_state():
    stages = walk.training(Model(), "adam")
    assert max(stages, key=lambda stage: stage.held_bytes).name == "optimizer"


def test_frozen_weights_are_held_always_and_never_bring_more():
    for optimizer in walk.OPTIMIZERS:
        for stage in walk.training(Model(), optimizer):
            assert stage.held["frozen_weights"] == 8
            assert stage.held.get("gradients", 0) <= 8


def test_activations_are_kept_from_forward_until_backward_is_done():
    held = [stage.held.get("activations", 0) for stage in walk.training(Model(), "adam")]
    assert held == [4, 12, 12, 12, 8, 0, 0, 0]


def test_inference_never_holds_gradients_or_states_and_less_than_training():
    stages = walk.inference(Model())
    assert all(set(stage.held) <= {"weights", "frozen_weights", "activations"} for stage in stages)
    assert max(s.held_bytes for s in stages) < max(s.held_bytes for s in walk.training(Model(), "sgd"))


# ---------------------------------------------------------------- the widget


def test_eight_stages_in_the_lesson_s_order():
    names = [stage.name for stage in walk.training(Model())]
    assert names == ["input", "forward pass", "output against expected output", "loss", "backward pass",
                     "gradients", "optimizer", "changed parameters"]  # fmt: skip


def test_the_drawing_lights_who_is_at_work_and_draws_what_is_held():
    widget = stepper.training_step()
    for at, stage in enumerate(walk.training(Model(), "adam"), start=1):
        widget.stage.value = at
        assert lit(widget.picture) == set(stage.lit) - {"backward"}
        assert bar(widget.picture) == dict(stage.held)
        assert widget.words == f"Stage {at} of 8, {stage.name}. {stage.words}"
        assert ElementTree.fromstring(widget.picture.svg).get("aria-label") == widget.words


def test_the_frozen_body_is_never_lit_by_backward_gradients_or_optimizer():
    for stage in walk.training(Model())[3:]:
        assert "body" not in stage.lit


def test_the_switch_runs_the_forward_pass_only():
    widget = stepper.training_step()
    widget.stage.value = 8
    widget.mode.value = "inference"
    assert widget.stage.max == 3
    assert widget.words.startswith("Stage 3 of 3, output.")
    assert {"loss", "gradients", "optimizer"}.isdisjoint(lit(widget.picture))
    assert "Inference stops here" in widget.picture.svg
    widget.mode.value = "training"
    assert widget.stage.max == 8


def test_buttons_go_one_stage_and_stop_at_the_ends():
    widget = stepper.training_step()
    back, onward = widget.children[3].children
    back.click()
    assert widget.stage.value == 1
    for _ in range(10):
        onward.click()
    assert widget.stage.value == 8


def test_the_picture_keeps_its_height_and_its_axis():
    widget = stepper.training_step()
    boxes = set()
    for mode in ("training", "inference"):
        widget.mode.value = mode
        for at in range(1, widget.stage.max + 1):
            widget.stage.value = at
            boxes.add(ElementTree.fromstring(widget.picture.svg).get("viewBox"))
    assert len(boxes) == 1


def test_every_control_has_a_label_or_a_name():
    widget = stepper.training_step()
    assert all(control.description for control in widget.controls.values())
    assert all(button.description for button in widget.children[3].children)


def test_the_cell_leaves_every_stage_as_a_small_multiple_and_as_text():
    widget = stepper.training_step()
    bundle = widget._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "data:image/svg+xml;base64," in bundle["text/html"]
    for stage in walk.training(Model()):
        assert stage.name in bundle["text/html"]
        assert stage.says.split(".")[0] in bundle["text/html"]
    assert bundle["text/plain"] == widget.words


def test_no_box_lies_on_another():
    for i, one in enumerate(scene.ACTORS):
        for other in scene.ACTORS[i + 1 :]:
            apart_x = one.x + one.width <= other.x or other.x + other.width <= one.x
            apart_y = one.y + one.height <= other.y or other.y + other.height <= one.y
            assert apart_x or apart_y
