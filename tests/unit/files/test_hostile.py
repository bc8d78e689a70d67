"""Files that want to run code: nothing of it runs unless they are trusted."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.unit.files.archives import bare_bomb, bomb, changed, saved, with_text
from unflatten import files, unflatten
from unflatten.errors import UntrustedFileError

DATA = saved()
Text = dict[str, Any]


def _refused(data: bytes, found: str) -> None:
    with pytest.raises(UntrustedFileError, match=found):
        files.load(io.BytesIO(data))


def test_a_pickle_among_the_example_inputs(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    data = changed(DATA, lambda records: records.update({"data/sample_inputs/model.pt": bomb(mark)}))
    _refused(data, r"sample_inputs/model\.pt is a pickle that asks for posix")
    assert not mark.exists()
    files.load(io.BytesIO(data), trust=True)
    assert mark.exists()


def test_a_pickle_that_is_no_archive(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    data = changed(DATA, lambda records: records.update({"data/sample_inputs/model.pt": bare_bomb(mark)}))
    _refused(data, "sample_inputs")
    assert not mark.exists()


@pytest.mark.parametrize("folder", ["weights", "constants"])
def test_pickled_state(tmp_path: Path, folder: str) -> None:
    mark = tmp_path / "ran"

    def edit(records: dict[str, bytes]) -> None:
        name = f"data/{folder}/model_{folder}_config.json"
        config = json.loads(records[name])
        path = "weight_9" if folder == "weights" else "tensor_9"
        config["config"]["evil"] = {"path_name": path, "is_param": False, "use_pickle": True, "tensor_meta": None}
        records[name] = json.dumps(config).encode()
        records[f"data/{folder}/{path}"] = bomb(mark)

    _refused(changed(DATA, edit), "asks for posix")
    assert not mark.exists()


def test_pickled_state_of_a_model_in_a_folder(tmp_path: Path) -> None:
    mark = tmp_path / "ran"

    def edit(records: dict[str, bytes]) -> None:
        for name in [name for name in records if "model" in name]:
            folder, _, last = name.rpartition("/")
            records[f"{folder}/a/{last}"] = records.pop(name)
        config = {"path_name": "weight_9", "is_param": False, "use_pickle": True, "tensor_meta": None}
        records["data/weights/a/model_weights_config.json"] = json.dumps({"config": {"evil": config}}).encode()
        records["data/weights/weight_9"] = bomb(mark)
        records["data/weights/a/weight_9"] = b""

    _refused(changed(DATA, edit), "asks for posix")
    assert not mark.exists()


@pytest.mark.parametrize("folder", ["weights", "constants"])
def test_state_of_old_files(tmp_path: Path, folder: str) -> None:
    mark = tmp_path / "ran"
    _refused(changed(DATA, lambda records: records.update({f"data/{folder}/model.pt": bomb(mark)})), folder)
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["custom_obj_0", "opaque_obj_0"])
def test_objects(tmp_path: Path, kind: str) -> None:
    mark = tmp_path / "ran"

    def edit(records: dict[str, bytes]) -> None:
        payload = {"path_name": kind, "is_param": False, "use_pickle": True, "tensor_meta": None}
        records["data/constants/model_constants_config.json"] = json.dumps({"config": {"evil": payload}}).encode()
        records[f"data/constants/{kind}"] = bare_bomb(mark)

    _refused(changed(DATA, edit), f"{kind} can only be loaded by running code")
    assert not mark.exists()


def test_compiled_libraries() -> None:
    data = changed(DATA, lambda records: records.update({"data/aotinductor/model/evil.so": b"\x7fELF"}))
    _refused(data, r"evil\.so can only be loaded by running code")


def _size(text: str) -> Callable[[Text], None]:
    def edit(program: Text) -> None:
        program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = text

    return edit


def _target(text: str) -> Callable[[Text], None]:
    return lambda program: program["graph_module"]["graph"]["nodes"][0].update(target=text)


def _guard(text: str) -> Callable[[Text], None]:
    return lambda program: program.update(guards_code=[text])


def _spec(change: Callable[[Text], None]) -> Callable[[Text], None]:
    def edit(program: Text) -> None:
        signature = program["graph_module"]["module_call_graph"][0]["signature"]
        version, spec = json.loads(signature["in_spec"])
        change(spec)
        signature["in_spec"] = json.dumps([version, spec])

    return edit


def _renamed_parameter(program: Text) -> None:
    for spec in program["graph_module"]["signature"]["input_specs"]:
        if "parameter" in spec:
            spec["parameter"]["parameter_name"] = 'w"), print(1), ("'


def _renamed_argument(program: Text) -> None:
    program["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"] = ["x=print(1)", "mask"]


def _renamed_input(program: Text) -> None:
    program["graph_module"]["graph"]["inputs"][-1]["as_tensor"]["name"] = "mask=print(1)"


def _keyword(spec: Text) -> None:
    spec["children_spec"][1]["context"] = json.dumps(["mask=print(1)"])


def _factory(spec: Text) -> None:
    spec["type"] = "collections.defaultdict"
    spec["context"] = {
        "default_factory_module": "os",
        "default_factory_name": "getcwd",
        "dict_context": [],
    }


def _enum(spec: Text) -> None:
    spec["children_spec"][1]["context"] = json.dumps([{"__enum__": True, "fqn": "antigravity:X", "name": "A"}])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (_size("__import__('os').getcwd()"), "a size"),
        (_size("Integer('__import__(\"os\").getcwd()')"), "a size"),
        (_size("Symbol(print('x'))"), "a size"),
        (_size("[].append(1)"), "a size"),
        (_size("(lambda: 1)()"), "a size"),
        (_size("9**9**9**9"), "a size"),
        (_size("Pow(Integer(9), Pow(Integer(9), Integer(99)))"), "a size"),
        (_guard("torch.load('x')"), "a guard"),
        (_guard("__import__('os').getcwd()"), "a guard"),
        (_guard("torch.os.getcwd()"), "a guard"),
        (_guard("""L['a", print(1), "'] == 1"""), "a guard"),
        (_guard("L['x'].size()[0] == 1, print(1)) #"), "a guard"),
        (_target("torch.os.system"), "what a node calls"),
        (_target("torch.serialization.load"), "what a node calls"),
        (_target("torch.ops.load_library"), "what a node calls"),
        (_target("torch.ops.aten.from_file.default"), "what a node calls"),
        (_target("_operator.methodcaller"), "what a node calls"),
        (_target("torch._functorch.predispatch.threading.Thread"), "what a node calls"),
        (_renamed_parameter, "a name of a parameter"),
        (_renamed_argument, "a name of an argument"),
        (_renamed_input, "a name"),
        (_spec(_keyword), "the structure of arguments"),
        (_spec(_factory), "the structure of arguments"),
        (_spec(_enum), "the structure of arguments"),
    ],
)
def test_texts_that_become_code(change: Callable[[Text], None], found: str) -> None:
    _refused(with_text(DATA, change), found)


def test_a_file_with_two_readings(tmp_path: Path) -> None:
    """Where the archive can't be loaded, torch would look for an older format in the same file."""
    mark = tmp_path / "ran"

    def edit(records: dict[str, bytes]) -> None:
        records["models/model.json"] = b'{"schema_version": {"major": 99, "minor": 0}}'
        records["version"] = b"8.20"
        records["serialized_constants.pt"] = bomb(mark)

    with pytest.raises(ValueError, match="can't be"):
        files.load(io.BytesIO(changed(DATA, edit)))
    assert not mark.exists()


def test_what_is_harmless_loads() -> None:
    program = files.load(io.BytesIO(DATA))
    x, mask = torch.randn(5, 4), torch.randn(5, 1)
    assert torch.equal(unflatten(program)(x, mask=mask), program.module()(x, mask=mask))
