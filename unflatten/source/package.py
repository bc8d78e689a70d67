"""What a written package has besides its classes."""

from __future__ import annotations

CONSTANTS = '''
def move_constants(module, fn):
    """Moves the tensors of a module that are no buffers, as those are moved."""
    for name, value in vars(module).items():
        if isinstance(value, torch.Tensor):
            module.__dict__[name] = value.to(fn(value).device)
    return module
'''

INIT = '''{remark}"""A model as source. `load()` gives it with its state."""

import json
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn

from .model import {root}

__all__ = [{names}]
FILE = Path(__file__).parent / "model.safetensors"

{more}
def load(file=FILE, device="cpu"):
    """The model, with the state that a file holds."""
    with torch.device("meta"):
        model = {root}()
    tensors, metadata = read(file, device)
    frozen = set(json.loads(metadata.get("frozen", "[]")))
    made = {{}}
    for names, module in walk(model):
        is_leaf = module.__class__.__module__.startswith("torch.")
        plain = {{}} if is_leaf else module.__dict__
        for table in (module._parameters, module._buffers, plain):
            for name, old in list(table.items()):
                if not isinstance(old, torch.Tensor):
                    continue
                if id(old) not in made:
                    key = key_of((*names, name))
                    new = tensors[key]
                    if isinstance(old, nn.Parameter):
                        new = nn.Parameter(new, old.requires_grad and key not in frozen)
                    made[id(old)] = old, new
                if is_leaf:
                    setattr(module, name, made[id(old)][1])
                else:
                    table[name] = made[id(old)][1]
    return model


def read(file, device):
    """The tensors of a file, those that share memory made of it."""
    with safe_open(str(file), framework="pt", device=device) as opened:
        metadata = opened.metadata() or {{}}
        names = list(opened.keys())
        tensors = {{name: opened.get_tensor(name) for name in names}}
    memory = {{}}
    views = {{}}
    for name, view in json.loads(metadata.get("layout", "{{}}")).items():
        if view["memory"] not in memory:
            memory[view["memory"]] = tensors[view["memory"]].clone()
        dtype = getattr(torch, view["dtype"])
        storage = memory[view["memory"]].untyped_storage()
        empty = torch.empty(0, dtype=dtype, device=device)
        views[name] = empty.set_(
            storage, view["offset"], tuple(view["shape"]), tuple(view["stride"])
        )
    return {{**tensors, **views}}, metadata


def walk(model):
    """Every module once, with the names that lead to it, each before those inside it."""
    seen, stack = set(), [((), model)]
    while stack:
        names, module = stack.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        yield names, module
        inner = [((*names, name), child) for name, child in module._modules.items()]
        stack.extend(pair for pair in reversed(inner) if pair[1] is not None)


def key_of(names):
    """What a tensor is called in the file."""
    return json.dumps(names) if any("." in name for name in names) else ".".join(names)
'''

README = """# {root}

A model as source, written by `unflatten.source.write`. It needs torch, and safetensors to read its state.

| file | holds |
|---|---|
| `model.py` | the classes; edit them |
| `model.safetensors` | the state |
| `__init__.py` | `load()`, which makes the model and gives it the state |

With the folder that holds this one on Python's path{renamed}:

```python
from {package} import load

model = load()
```

or, from anywhere, `unflatten.source.load("path/to/this/folder")`. The model pickles where this package is imported
by its own name, in both processes.
"""
