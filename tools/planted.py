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
        test: the property that is tried: the name of its file and its own, or of files.
    """

    name: str
    file: str
    old: str
    new: str
    test: str


FAULTS = (
    Fault(
        "a read may come before the write that it sees",
        "unflatten/effects.py",
        "                before.setdefault(node.index, []).append(last_write[root])\n",
        "                pass\n",
        "nesting::test_results_writes_and_state",
    ),
    Fault(
        "random numbers are drawn in any order",
        "unflatten/effects.py",
        "                before.setdefault(node.index, []).append(last[order])\n",
        "                pass\n",
        "nesting::test_random_numbers",
    ),
    Fault(
        "arguments of a call are swapped",
        "unflatten/code/bodies.py",
        "            return tuple(self.value(value) for value in inputs), {}\n",
        "            return tuple(self.value(value) for value in reversed(inputs)), {}\n",
        "nesting::test_writes",
    ),
    Fault(
        "results of a call are swapped",
        "unflatten/code/bodies.py",
        "(Item(returned.index(value)),)",
        "(Item(len(returned) - 1 - returned.index(value)),)",
        "nesting::test_several_results",
    ),
    Fault(
        "different calls of a module are merged",
        "unflatten/code/bodies.py",
        "key = (path, _raw_key(written.body))",
        "key = (path, len(written.body.steps))",
        "nesting::test_several_calls",
    ),
    Fault(
        "a call runs the wrong body",
        "unflatten/code/bodies.py",
        "pick = variant.index if several or is_guessed(variant) else None",
        "pick = 0 if several or is_guessed(variant) else None",
        "nesting::test_several_calls",
    ),
    Fault(
        "keywords of a recorded call are dropped",
        "unflatten/code/bodies.py",
        "        return args, {**kwargs, **extra}\n",
        "        return args, extra\n",
        "swap::test_recorded_calls",
    ),
    Fault(
        "a module at two names becomes two modules",
        "unflatten/build.py",
        "            first = program.aliases.get(path, path)\n",
        "            first = path\n",
        "nesting::test_shared_modules",
    ),
    Fault(
        "a tie of parameters is lost, and weights are cloned",
        "unflatten/filling.py",
        "            module._parameters[entry.name] = value\n",
        "            module._parameters[entry.name] = nn.Parameter(value.detach().clone())\n",
        "state::test_state_is_the_programs_own",
    ),
    Fault(
        "weights are cloned, ties kept",
        "unflatten/state.py",
        "own = _clone(value, storages) if storage_key(value) in memory else value",
        "own = _clone(value, storages)",
        "state::test_state_is_the_programs_own",
    ),
    Fault(
        "a written buffer is shared with the program",
        "unflatten/filling.py",
        "[state.tensors.get(value) for value in self.analysis.effects.written]",
        "[]",
        "state::test_two_results_of_a_program_do_not_meet",
    ),
    Fault(
        "buffers that are not saved are saved",
        "unflatten/filling.py",
        "                module._non_persistent_buffers_set.add(entry.name)\n",
        "                pass\n",
        "state::test_state_dicts_go_both_ways",
    ),
    Fault(
        "position is evidence of order",
        "unflatten/grouping/drafts.py",
        "        return 0, *natural(item.name), 0\n",
        '        return 0, "", item.index, "", 0\n',
        "order::test_order_does_not_matter",
    ),
    Fault(
        "a write-back is forgotten",
        "unflatten/flat/writes.py",
        '        self._write(last, target, f"{target.name}_copy", readers, final=True)\n',
        "",
        "nesting::test_writes",
    ),
    Fault(
        "a buffer is overwritten before others read it",
        "unflatten/flat/writes.py",
        "        self.after += [(reader, write) for reader in readers]\n",
        "",
        "buffers::test_functional_programs",
    ),
    Fault(
        "the program is changed",
        "unflatten/build.py",
        "        analysis = analyse(program, native_leaves)\n",
        "        analysis = analyse(program, native_leaves)\n"
        '        next(iter(program.graph.nodes)).meta["seen"] = True\n',
        "nesting::test_results_writes_and_state",
    ),
    Fault(
        "guards are dropped",
        "unflatten/build.py",
        "tuple(_torch.guard_sources(program))",
        "()",
        "nesting::test_other_sizes",
    ),
    Fault(
        "a bypassed module hands on another input",
        "unflatten/rewrite/choosing.py",
        "        found = meant or fitting\n",
        "        found = meant and fitting[-1:]\n",
        "bypass::test_a_module_that_is_left_out_is_as_if_it_had_copied_its_input",
    ),
    Fault(
        "a bypassed module hands on no copy where one is written",
        "unflatten/rewrite/bypassed.py",
        "return self.copy(local) if self.copies and isinstance(offer.specs[0], TensorSpec) else local",
        "return local",
        "bypass::test_writes_around_modules_that_are_left_out",
    ),
    Fault(
        "a bypassed node is led around by one step only",
        "unflatten/rewrite/rewiring.py",
        "            return self.chain(node)[-1]\n",
        "            return self.chain(node)[: 2][-1]\n",
        "bypass_nodes::test_dead_code_is_what_is_left_out",
    ),
    Fault(
        "only the first name of a module is swapped",
        "unflatten/rewrite/sites.py",
        "        for holder, name in self.holders:\n",
        "        for holder, name in self.holders[:1]:\n",
        "swap::test_swapping_a_module_for_a_copy_and_back_changes_nothing",
    ),
    Fault(
        "what is inside of a bypassed module is not found",
        "unflatten/rewrite/sites.py",
        "calls_of(everything(*site.tops), site.module, _children)",
        "calls_of(everything(*site.tops), site.module)",
        "bypass::test_all_modules_in_any_order",
    ),
    Fault(
        "a copy in another process loses its names",
        "unflatten/calls/known.py",
        'return {**self.__dict__, "regions": (), "origins": (), "_compiled": {}}',
        'return {**self.__dict__, "regions": (), "origins": (), "_compiled": {}, "calls": ()}',
        "state::test_copies_and_files",
    ),
)
