"""From a program to its bodies: each stage's value made from those of the stages before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn
from torch.export import ExportedProgram

from unflatten.chains import Chains
from unflatten.code.bodies import Bodies
from unflatten.code.places import Namer
from unflatten.descriptions import Description, describe
from unflatten.effects import Effects, find_effects
from unflatten.flat.operators import trained_mode
from unflatten.flat.program import read_program
from unflatten.flat.values import FlatProgram
from unflatten.flat.writes import restore_writes
from unflatten.grouping.drafts import Draft
from unflatten.grouping.grouping import Grouping
from unflatten.grouping.legality import separate
from unflatten.grouping.modes import ambient_modes
from unflatten.grouping.ordering import Arrangement, arrange
from unflatten.leaves.recognising import recognise
from unflatten.ownership import assign_owners
from unflatten.paths import ModulePath
from unflatten.recording.forms import NONE, recorded_forms
from unflatten.regions import Region, freeze
from unflatten.signatures import Form, preserved_forms, root_form
from unflatten.state import Source, StatePlan, plan_state


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that is found out about a program before modules are made of it.

    Attributes:
        program: the program as read, with functional updates turned into writes.
        form: how it is called.
        state: who holds what.
        effects: what has to happen before what.
        arranged: the order of each call, and what it takes and gives.
        regions: the calls, as the frozen tree.
        bodies: what each module computes, in each of the ways in which it is called.
        descriptions: what stands at each path.
        training: whether no operator was captured in eval mode.
        genuine: for the path of each module that is a genuine one, what it is like.
        chains: the modules that are an `nn.Sequential`.
    """

    program: FlatProgram
    form: Form
    state: StatePlan
    effects: Effects
    arranged: Mapping[Draft, Arrangement]
    regions: Mapping[Draft, Region]
    bodies: Bodies
    descriptions: Mapping[ModulePath, Description]
    training: bool
    genuine: Mapping[ModulePath, nn.Module]
    chains: Chains


def analyse(source: ExportedProgram, native_leaves: bool) -> Analysis:
    """Runs the stages, in time linear in the size of the program.

    Args:
        source: the program.
        native_leaves: whether to look for modules that are genuine ones.

    Raises:
        NotAProgramError: something else was given.
        ProgramError: the program contradicts itself.
    """
    program = read_program(source)
    state = plan_state(program)
    ownership = assign_owners(program)
    program = restore_writes(program, ownership, state.holders())
    effects = find_effects(program, state.storage_key)
    form = root_form(program)
    recorded = recorded_forms(program, program.record) if program.record else NONE
    forms = {**preserved_forms(program), **recorded.forms}
    grouping = Grouping.of(program, ownership.extended(program), effects, state, form, forms, recorded.around)
    separate(grouping)
    arranged = arrange(grouping)
    ambient = ambient_modes(grouping)
    calls = [draft.call for draft in (*grouping.drafts(), *grouping.idle) if draft.call is not None]
    descriptions = describe(program, state.entries, calls)
    training = all(trained_mode(node) is not False for node in program.nodes)
    genuine = recognise(grouping, arranged, ambient, training) if native_leaves else {}
    bodies = Bodies(grouping, arranged, ambient, namer_of(program, state, descriptions), frozenset(genuine))
    bodies.write()
    chains = Chains.of(bodies) if native_leaves else Chains()
    regions = freeze([*grouping.drafts(), *grouping.idle], arranged, ambient)
    return Analysis(program, form, state, effects, arranged, regions, bodies, descriptions, training, genuine, chains)


def namer_of(program: FlatProgram, state: StatePlan, descriptions: Mapping[ModulePath, Description]) -> Namer:
    """Finds what code needs to refer to modules and state: shared modules, containers, and tables."""
    tables = {}
    for entry in state.entries:
        if entry.source in (Source.PARAMETER, Source.BUFFER):
            tables[entry.owner, entry.name] = "_parameters" if entry.source is Source.PARAMETER else "_buffers"
    return Namer(program.aliases, descriptions, tables)
