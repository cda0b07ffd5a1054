"""Sent along with a request and run beside student code: makes a small torch model, reads what became of it.

A student may read all of this. It holds no right answer: those follow, on the trusted side, from a
specification drawn fresh for each run. A specification is {"layers": {group: [inputs, outputs, has_bias]},
"frozen": [groups], "optimizer": name}.
"""

#: the values of the model that a call was given, before it
start = {}


def arguments(task, spec, *rest):
    """Return what the learner's function is called with: a model (and a group), or an optimizer."""
    model = _model(spec)
    start.update((name, each.detach().clone()) for name, each in model.named_parameters())
    if task == "plain":
        return (model, *rest)
    optimizer = _step(model, spec["optimizer"])
    return (optimizer,) if task == "optimizer" else (model, *rest)


def reply(arguments, result):
    """Return the learner's result as it is, or what their function did to the model it was given."""
    import torch

    if len(arguments) == 1:
        return result
    model = arguments[0]
    seen = {"trainable": [name for name, each in model.named_parameters() if each.requires_grad]}
    if isinstance(result, torch.optim.Optimizer):
        return {**seen, **_held_and_moved(model, result)}
    return {
        **seen,
        "attribute": any("requires_grad" in vars(module) for module in model.modules()),
        "misspelt": any(vars(each) for each in model.parameters()),
        "altered": not all(torch.equal(each, start[name]) for name, each in model.state_dict().items()),
        "returned": result is not None,
    }


def _model(spec):
    import torch

    layers = {
        group: torch.nn.Linear(inputs, outputs, bias=has_bias)
        for group, (inputs, outputs, has_bias) in spec["layers"].items()
    }
    model = torch.nn.Sequential()
    for group, layer in layers.items():
        model.add_module(group, layer)
        if group in spec["frozen"]:
            for parameter in layer.parameters():
                parameter.requires_grad = False
    return model


def _step(model, name):
    """Run one training step on made-up numbers and return the optimizer; the gradients stay."""
    import torch

    trainable = [each for each in model.parameters() if each.requires_grad]
    makers = {
        "sgd": lambda: torch.optim.SGD(trainable, lr=0.1),
        "momentum": lambda: torch.optim.SGD(trainable, lr=0.1, momentum=0.9),
        "adamw": lambda: torch.optim.AdamW(trainable, lr=0.1),
    }
    optimizer = makers[name]()
    inputs = next(model.parameters()).shape[1]
    model(torch.ones(3, inputs)).square().mean().backward()
    optimizer.step()
    return optimizer


def _held_and_moved(model, optimizer):
    """Which parameters the optimizer holds, and which move although frozen ones get a zero gradient."""
    import torch

    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    before = {name: each.detach().clone() for name, each in model.named_parameters()}
    for each in model.parameters():
        each.grad = torch.ones_like(each) if each.requires_grad else torch.zeros_like(each)
    optimizer.step()
    moved = [name for name, each in model.named_parameters() if not torch.equal(each.detach(), before[name])]
    kind = "AdamW" if isinstance(optimizer, torch.optim.AdamW) else type(optimizer).__name__
    decays = any(group.get("weight_decay") for group in optimizer.param_groups)
    names = [name for name, each in model.named_parameters() if id(each) in held]
    return {"kind": kind, "decays": decays, "held": names, "moved": moved}


def look(names):
    """What the step of the rep did to each tensor of `rep_model`: [name, numbers, moved, gradient, state]."""
    import torch

    model, before, optimizer = (names.get(name) for name in ("rep_model", "rep_before", "rep_optimizer"))
    if not isinstance(model, torch.nn.Module) or not isinstance(before, dict):
        return None
    state = optimizer.state if isinstance(optimizer, torch.optim.Optimizer) else {}
    rows = []
    for name, each in model.named_parameters():
        kept = [value for key, value in state.get(each, {}).items() if key != "step"]
        rows.append(
            [
                name,
                each.numel(),
                not torch.equal(each.detach(), before[name]),
                0 if each.grad is None else each.grad.numel(),
                sum(value.numel() for value in kept if torch.is_tensor(value)),
            ]
        )
    return rows
