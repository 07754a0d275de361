import json
from pathlib import Path

import pytest
import yaml

from study.errors import InputError
from study.measure.model import prepare_model

ROOT = Path(__file__).parent.parent
SHAPES = ROOT / "notebooks/parameters/models"


def test_a_shape_becomes_a_folder_with_the_same_bytes_every_time(tmp_path):
    first = prepare_model(str(SHAPES / "rehearsal.yaml"), "dummy", tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / first).iterdir()}
    assert set(before) == {"config.json", "tokenizer.json", "tokenizer_config.json"}
    (tmp_path / first / "tokenizer.json").write_text("spoiled")
    assert prepare_model(str(SHAPES / "rehearsal.yaml"), "dummy", tmp_path) == first
    assert {path.name: path.read_bytes() for path in (tmp_path / first).iterdir()} == before


def test_the_rehearsal_model_is_qwen3_shaped_and_wide_enough(tmp_path):
    folder = tmp_path / prepare_model(str(SHAPES / "rehearsal.yaml"), "dummy", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    assert (config["model_type"], config["num_hidden_layers"], config["hidden_size"]) == ("qwen3", 2, 1024)


def test_the_made_tokenizer_has_one_token_a_word_and_covers_the_vocabulary(tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / prepare_model(str(SHAPES / "rehearsal.yaml"), "dummy", tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
    assert len(tokenizer) == 8192
    ids = [2, 17, 1234, 8191]
    assert tokenizer.encode(tokenizer.decode(ids)) == ids


def test_qwen3_8b_has_its_published_shape():
    config = yaml.safe_load((SHAPES / "qwen3-8b.yaml").read_text())["config"]
    assert (config["num_hidden_layers"], config["hidden_size"], config["intermediate_size"]) == (36, 4096, 12288)
    assert (config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]) == (32, 8, 128)
    assert config["vocab_size"] == 151936


def test_weights_are_needed_where_they_are_asked_for():
    with pytest.raises(InputError, match="load_format dummy"):
        prepare_model(str(SHAPES / "rehearsal.yaml"), "auto", ROOT)


@pytest.mark.parametrize("model", ["./none", "/none/at/all", "a/b/c"])
def test_a_folder_that_is_not_there_is_named(model, tmp_path):
    with pytest.raises(InputError, match=model):
        prepare_model(model, "auto", tmp_path)


@pytest.mark.parametrize("name", ["bos_token_id", "eos_token_id", "max_position_embeddings"])
def test_a_shape_without_what_its_tokenizer_needs_is_named(name, tmp_path):
    shape = yaml.safe_load((SHAPES / "rehearsal.yaml").read_text())
    del shape["config"][name]
    (tmp_path / "shape.yaml").write_text(yaml.safe_dump(shape))
    with pytest.raises(InputError, match=f"config needs '{name}', a whole number"):
        prepare_model("shape.yaml", "dummy", tmp_path)


def test_a_name_that_no_file_can_have_is_refused_in_one_line(tmp_path):
    with pytest.raises(InputError, match="300 characters"):
        prepare_model("x" * 300, "auto", tmp_path)


def test_a_hub_name_goes_to_vllm_as_it_is(tmp_path):
    assert prepare_model("Qwen/Qwen3-8B", "auto", tmp_path) == "Qwen/Qwen3-8B"
