"""`martlet tokenize` and `martlet template` as commands: what they print and how they fail."""
import json
import subprocess

import pytest

pytestmark = pytest.mark.beside


@pytest.fixture
def martlet(program):
    def call(*arguments, stdin=b""):
        return subprocess.run([program, *arguments], input=stdin, capture_output=True, timeout=60)
    return call


def failed(result, exit_code, code):
    assert result.returncode == exit_code, result.stderr
    assert result.stderr.decode().startswith(f"error[{code}]: ") and result.stderr.count(b"\n") == 1, result.stderr
    assert result.stdout == b""


# nano's vocabulary is one token a byte, the merges "th" (256) and "the" (257), and three control tokens from 258

def test_tokenize_ids(martlet, nano):
    assert martlet("tokenize", nano, "the cat", "--ids").stdout == b"257,32,99,97,116\n"
    assert martlet("tokenize", nano, "--ids", stdin=b"ab").stdout == b"97,98\n"
    assert martlet("tokenize", nano, "-", "--ids", stdin="é\n".encode()).stdout == b"195,169,10\n"
    assert martlet("tokenize", nano, "--ids", stdin=b"").stdout == b"\n"


def test_tokenize_control_tokens_only_when_asked(martlet, nano):
    assert martlet("tokenize", nano, "<|im_end|>", "--ids", "--special").stdout == b"259\n"
    assert b"259" not in martlet("tokenize", nano, "<|im_end|>", "--ids").stdout


def test_tokenize_lines_and_json(martlet, nano):
    assert martlet("tokenize", nano, "a\x1b[1m").stdout.decode().splitlines() == [
        '     97  "a"', '     27  "\\x1b"', '     91  "["', '     49  "1"', '    109  "m"']
    assert json.loads(martlet("tokenize", nano, "the", "--json").stdout) == {
        "count": 1, "tokens": [{"id": 257, "piece": "the", "text": "the"}]}


def test_tokenize_fails(martlet, nano, tmp_path):
    failed(martlet("tokenize", tmp_path / "none.gguf", "a"), 5, "model_not_found")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(60))
    failed(martlet("tokenize", tmp_path / "bad.gguf", "a"), 3, "bad_header")
    failed(martlet("tokenize", nano, "a", "--ids", "--json"), 2, "usage")
    failed(martlet("tokenize"), 2, "usage")


@pytest.fixture
def case(tmp_path):
    path = tmp_path / "case.json"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True}))
    return path


def test_template_of_a_model(martlet, nano, case):
    assert martlet("template", nano, "--input", case).stdout.decode() == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


def test_template_file(martlet, case, tmp_path):
    (tmp_path / "t.jinja").write_text("{{ messages|length }} {{ strftime_now('%Y') }}")
    done = martlet("template", tmp_path / "t.jinja", "--input", case, "--now", "1999-12-31")
    assert done.stdout == b"1 1999"
    failed(martlet("template", tmp_path / "t.jinja", "--input", case, "--now", "soon"), 2, "usage")


def test_template_fails(martlet, nano, nano_with_bad_template, case, tmp_path):
    failed(martlet("template", nano_with_bad_template, "--input", case), 3, "template_unsupported")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(60))
    failed(martlet("template", tmp_path / "bad.gguf", "--input", case), 3, "bad_header")
    (tmp_path / "bad.json").write_text("[1]")
    failed(martlet("template", nano, "--input", tmp_path / "bad.json"), 2, "invalid_json")
    failed(martlet("template", nano, "--input", tmp_path / "none.json"), 5, "file_not_found")
    failed(martlet("template", nano), 2, "usage")
