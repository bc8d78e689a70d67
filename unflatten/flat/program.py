"""Reading an exported program into a `FlatProgram`, and refusing one that contradicts itself.

Reading changes nothing in the program.
"""

from __future__ import annotations

from typing import Any

from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind

from unflatten import _torch
from unflatten.errors import (
    JointProgramError,
    MissingStateError,
    NotAProgramError,
    SignatureMismatchError,
    listing,
)
from unflatten.flat.aliases import find_aliases
from unflatten.flat.reading import GraphReader
from unflatten.flat.values import FlatInput, FlatProgram, Source, Value
from unflatten.paths import ROOT, ModulePath
from unflatten.recording.record import record_of
from unflatten.scopes import ScopeReader

_GRAPH = "; or look at this graph by module: unflatten.GraphView(graph)['path.of.module']"


def read_program(program: ExportedProgram) -> FlatProgram:
    """Reads an exported program, in time linear in its size.

    Raises:
        NotAProgramError: it is something else.
        ProgramError: it contradicts itself; the subclasses say how.
    """
    if not isinstance(program, ExportedProgram):
        raise NotAProgramError(
            f"expected a torch.export.ExportedProgram, got {type(program).__name__}. "
            "Export the module first: program = torch.export.export(module, args)"
            + (_GRAPH if isinstance(program, fx.Graph | fx.GraphModule) else "")
        )
    _refuse_joint(program)
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    inputs = _read_inputs(program, placeholders)
    paths = module_paths(program)
    record = record_of(program)
    aliases = find_aliases(program, paths, record)
    scopes = ScopeReader(paths, aliases)
    reader = GraphReader(scopes)
    results = reader.read(program.graph_module, dict(zip(placeholders, inputs, strict=True)))
    outputs, mutations = _read_outputs(program, results, inputs)
    _check_leaves(program, inputs, outputs)
    return FlatProgram(
        source=program,
        inputs=(*inputs, *reader.attribute_inputs.values()),
        nodes=tuple(reader.nodes),
        outputs=outputs,
        mutations=mutations,
        paths=paths,
        aliases=aliases,
        root_type=scopes.root_type,
        attributes=reader.attributes,
        record=record,
    )


def _refuse_joint(program: ExportedProgram) -> None:
    joint = {OutputKind.LOSS_OUTPUT, OutputKind.GRADIENT_TO_PARAMETER, OutputKind.GRADIENT_TO_USER_INPUT}
    if any(spec.kind in joint for spec in program.graph_signature.output_specs):
        raise JointProgramError(
            "this program computes gradients as well (a joint forward-backward program), and only a forward "
            "program has modules that run. Unflatten the program that it was made from; or look at this one by module "
            "and phase: unflatten.GraphView(program)['path.of.module'].backward"
        )


def module_paths(program: ExportedProgram) -> tuple[ModulePath, ...]:
    """Every module path, in the model's order: those that export recorded, then what only the state names."""
    recorded: dict[ModulePath, None] = {ROOT: None}
    for entry in program.module_call_graph:
        base, at, count = entry.fqn.rpartition("@")
        # Each further call of a module with a preserved signature has an entry of its own, `path@1`.
        repeats = entry.signature is not None and at and count.isdigit() and ModulePath.parse(base) in recorded
        if not repeats and not _torch.is_generated_module(entry.fqn):
            recorded.setdefault(ModulePath.parse(entry.fqn))
    for fqn in program.state_dict:
        names = ModulePath.parse(fqn).names[:-1]
        for size in range(1, len(names) + 1):
            recorded.setdefault(ModulePath(names[:size]))
    return tuple(recorded)


_SOURCES = {
    InputKind.USER_INPUT: Source.USER,
    InputKind.PARAMETER: Source.PARAMETER,
    InputKind.BUFFER: Source.BUFFER,
    InputKind.CONSTANT_TENSOR: Source.CONSTANT,
    InputKind.CUSTOM_OBJ: Source.OBJECT,
    InputKind.TOKEN: Source.TOKEN,
}


def _read_inputs(program: ExportedProgram, placeholders: list[fx.Node]) -> list[FlatInput]:
    specs = program.graph_signature.input_specs
    wrong = [
        f"placeholder {node.name!r} stands where the signature has {spec.arg.name!r}"
        for node, spec in zip(placeholders, specs, strict=False)
        if spec.arg.name not in ("", node.name, node.target)
    ]
    if len(specs) != len(placeholders):
        wrong.insert(0, f"the graph has {len(placeholders)} placeholders, the signature {len(specs)} inputs")
    if wrong:
        raise SignatureMismatchError(
            f"the graph and the graph signature disagree:\n{listing(wrong)}\n"
            "A pass that edits placeholders has to update program.graph_signature too."
        )
    missing = [text for spec in specs if (text := _missing_state(program, spec))]
    if missing:
        raise MissingStateError(
            f"the program uses state that it does not hold:\n{listing(missing)}\n"
            "Put the values into program.state_dict or program.constants."
        )
    inputs: list[FlatInput] = []
    position = 0
    for node, spec in zip(placeholders, specs, strict=True):
        source = _SOURCES[spec.kind]
        place = position if source is Source.USER else -1
        position += source is Source.USER
        persistent = spec.persistent is not False
        inputs.append(FlatInput(node.name, source, spec.target or "", node.meta, place, persistent))
    return inputs


def _missing_state(program: ExportedProgram, spec: InputSpec) -> str:
    if spec.kind in (InputKind.USER_INPUT, InputKind.TOKEN):
        return ""
    if spec.target in program.state_dict or spec.target in program.constants:
        return ""
    return f"{_SOURCES[spec.kind].value} {spec.target!r} (placeholder {spec.arg.name!r})"


def _read_outputs(
    program: ExportedProgram, results: Any, inputs: list[FlatInput]
) -> tuple[tuple[Any, ...], tuple[tuple[Value, FlatInput], ...]]:
    specs = program.graph_signature.output_specs
    flat = tuple(results) if isinstance(results, tuple | list) else (results,)
    if len(flat) != len(specs):
        raise SignatureMismatchError(
            f"the graph returns {len(flat)} values, the graph signature lists {len(specs)} outputs"
        )
    by_name = {value.name: value for value in inputs}
    by_fqn = {value.fqn: value for value in inputs if value.fqn}
    outputs, mutations = [], []
    for value, spec in zip(flat, specs, strict=True):
        if spec.kind is OutputKind.USER_OUTPUT:
            outputs.append(value)
        elif spec.kind is not OutputKind.TOKEN:
            names = by_name if spec.kind is OutputKind.USER_INPUT_MUTATION else by_fqn
            target = names.get(spec.target or "")
            if target is None:
                raise SignatureMismatchError(
                    f"the signature says that {value} updates {spec.target!r}, which is no input of the graph"
                )
            if value is not target:
                mutations.append((value, target))
    return tuple(outputs), tuple(mutations)


def _check_leaves(program: ExportedProgram, inputs: list[FlatInput], outputs: tuple[Any, ...]) -> None:
    spec = program.call_spec
    given = sum(value.source is Source.USER for value in inputs)
    if spec.in_spec is None or spec.out_spec is None:
        raise SignatureMismatchError("the program does not say how it is called: module_call_graph is empty")
    for kind, have, want in (
        ("user inputs", given, spec.in_spec.num_leaves),
        ("user outputs", len(outputs), spec.out_spec.num_leaves),
    ):
        if have != want:
            raise SignatureMismatchError(f"the graph has {have} {kind}, the call signature {want}")
