"""The faults that `plant_faults.py` plants, each as text to replace in a file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: what is wrong.
        file: where.
        old: the text there, which must be found once.
        new: the text instead.
        tests: the properties that are tried, by the names of their files.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


FAULTS = (
    Fault(
        "a read may come before the write that it sees",
        "unflatten/effects.py",
        "                before.setdefault(node.index, []).append(last_write[root])\n",
        "                pass\n",
        ("nesting", "order"),
    ),
    Fault(
        "random numbers are drawn in any order",
        "unflatten/effects.py",
        "                before.setdefault(node.index, []).append(last[order])\n",
        "                pass\n",
        ("nesting", "order"),
    ),
    Fault(
        "arguments of a call are swapped",
        "unflatten/code/bodies.py",
        "            return tuple(self.value(value) for value in inputs), {}\n",
        "            return tuple(self.value(value) for value in reversed(inputs)), {}\n",
        ("nesting",),
    ),
    Fault(
        "results of a call are swapped",
        "unflatten/code/bodies.py",
        "(Item(returned.index(value)),)",
        "(Item(len(returned) - 1 - returned.index(value)),)",
        ("nesting",),
    ),
    Fault(
        "different calls of a module are merged",
        "unflatten/code/bodies.py",
        "key = (path, _raw_key(written.body))",
        "key = (path, len(written.body.steps))",
        ("nesting",),
    ),
    Fault(
        "a call runs the wrong body",
        "unflatten/code/bodies.py",
        "pick = variant.index if several or is_guessed(variant) else None",
        "pick = 0 if several or is_guessed(variant) else None",
        ("nesting",),
    ),
    Fault(
        "keywords of a recorded call are dropped",
        "unflatten/code/bodies.py",
        "        return args, {**kwargs, **extra}\n",
        "        return args, extra\n",
        ("nesting", "swap"),
    ),
    Fault(
        "a module at two names becomes two modules",
        "unflatten/build.py",
        "            first = program.aliases.get(path, path)\n",
        "            first = path\n",
        ("nesting",),
    ),
    Fault(
        "a tie of parameters is lost, and weights are cloned",
        "unflatten/filling.py",
        "            module._parameters[entry.name] = value\n",
        "            module._parameters[entry.name] = nn.Parameter(value.detach().clone())\n",
        ("nesting", "state"),
    ),
    Fault(
        "weights are cloned, ties kept",
        "unflatten/state.py",
        "own = _clone(value, storages) if storage_key(value) in memory else value",
        "own = _clone(value, storages)",
        ("state",),
    ),
    Fault(
        "a written buffer is shared with the program",
        "unflatten/filling.py",
        "[state.tensors.get(value) for value in self.analysis.effects.written]",
        "[]",
        ("nesting", "state"),
    ),
    Fault(
        "buffers that are not saved are saved",
        "unflatten/filling.py",
        "                module._non_persistent_buffers_set.add(entry.name)\n",
        "                pass\n",
        ("nesting", "state"),
    ),
    Fault(
        "position is evidence of order",
        "unflatten/grouping/drafts.py",
        "        return 0, *natural(item.name), 0\n",
        '        return 0, "", item.index, 0\n',
        ("order",),
    ),
    Fault(
        "a write-back is forgotten",
        "unflatten/flat/writes.py",
        '        self._write(last, target, f"{target.name}_copy", readers, final=True)\n',
        "",
        ("nesting", "edits"),
    ),
    Fault(
        "a buffer is overwritten before others read it",
        "unflatten/flat/writes.py",
        "        self.after += [(reader, write) for reader in readers]\n",
        "",
        ("nesting", "edits", "order"),
    ),
    Fault(
        "the program is changed",
        "unflatten/build.py",
        "        analysis = analyse(program, native_leaves)\n",
        "        analysis = analyse(program, native_leaves)\n"
        '        next(iter(program.graph.nodes)).meta["seen"] = True\n',
        ("nesting",),
    ),
    Fault(
        "guards are dropped",
        "unflatten/build.py",
        "tuple(_torch.guard_sources(program))",
        "()",
        ("nesting",),
    ),
    Fault(
        "the mode is always eval",
        "unflatten/build.py",
        "        module.training = self.analysis.training\n",
        "        module.training = False\n",
        ("nesting", "swap", "state"),
    ),
    Fault(
        "a bypassed module hands on another input",
        "unflatten/rewrite/choosing.py",
        "        found = meant or fitting\n",
        "        found = meant and fitting[-1:]\n",
        ("bypass",),
    ),
    Fault(
        "a bypassed module hands on no copy where one is written",
        "unflatten/rewrite/bypassed.py",
        "return self.copy(local) if self.copies and isinstance(offer.specs[0], TensorSpec) else local",
        "return local",
        ("bypass",),
    ),
    Fault(
        "a bypassed node is led around by one step only",
        "unflatten/rewrite/rewiring.py",
        "            return self.chain(node)[-1]\n",
        "            return self.chain(node)[: 2][-1]\n",
        ("bypass",),
    ),
    Fault(
        "only the first name of a module is swapped",
        "unflatten/rewrite/sites.py",
        "        for holder, name in self.holders:\n",
        "        for holder, name in self.holders[:1]:\n",
        ("swap", "bypass"),
    ),
    Fault(
        "what is inside of a bypassed module is not found",
        "unflatten/rewrite/sites.py",
        "calls_of(everything(*site.tops), site.module, _children)",
        "calls_of(everything(*site.tops), site.module)",
        ("bypass",),
    ),
    Fault(
        "a copy in another process loses its names",
        "unflatten/calls/known.py",
        'return {**self.__dict__, "regions": (), "origins": (), "_compiled": {}}',
        'return {**self.__dict__, "regions": (), "origins": (), "_compiled": {}, "calls": ()}',
        ("state",),
    ),
    Fault(
        "a delay is one step too long",
        "nir_bridge/primitives/delay.py",
        "steps = np.floor(delay / target.dynamics.dt + 0.5).astype(np.int64)",
        "steps = np.floor(delay / target.dynamics.dt + 1.5).astype(np.int64)",
        ("nir*",),
    ),
    Fault(
        "a neuron is reset to its threshold",
        "nir_bridge/primitives/neuron.py",
        "            after = torch.where(where, v_reset, v)\n",
        "            after = torch.where(where, threshold, v)\n",
        ("nir*",),
    ),
)
