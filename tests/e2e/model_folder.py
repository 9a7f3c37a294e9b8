"""The tokenizer's half of a GGUF file as a folder in Hugging Face's layout, as MLX has it."""
import json

import gguf

UNUSED, CONTROL = 5, 3


def write_model_folder(model, folder, template, eos=None, merges=lambda lines: lines, **config):
    """`eos`: ids that end an answer, by default the file's; `merges`: what becomes of them; `config`: of the tokenizer."""
    fields = gguf.GGUFReader(model).fields
    get = lambda key: fields[f"tokenizer.ggml.{key}"].contents()
    tokens, kinds = get("tokens"), get("token_type")
    name = lambda key: tokens[int(get(f"{key}_token_id"))]
    vocabulary = {token: i for i, (token, kind) in enumerate(zip(tokens, kinds)) if kind not in (UNUSED, CONTROL)}
    added = [{"id": i, "content": token, "special": True} for i, (token, kind) in enumerate(zip(tokens, kinds)) if kind == CONTROL]
    folder.mkdir()
    files = {"tokenizer.json": {"added_tokens": added,
                                "model": {"type": "BPE", "vocab": vocabulary, "merges": merges(get("merges"))}},
             "tokenizer_config.json": {"bos_token": name("bos"), "eos_token": {"content": name("eos")},
                                       "chat_template": template} | config,
             "config.json": {"eos_token_id": eos if eos is not None else int(get("eos_token_id"))}}
    for file, content in files.items():
        (folder / file).write_text(json.dumps(content))
    return folder
