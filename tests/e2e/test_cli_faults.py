"""The command line under unlucky operators: full disks, closed streams, odd names, numbers that nobody means."""

import collections
import json
import os
import pathlib
import random
import resource
import shutil
import subprocess
import tempfile

import pytest

pytestmark = pytest.mark.beside
TIMEOUT = 60


@pytest.fixture
def martlet(program, tmp_path):
    """Runs the program with a store and a state of its own, and no more environment than that."""
    def call(*arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, shell=None, **variables):
        environment = {"PATH": os.environ["PATH"], "MARTLET_HOME": str(tmp_path / "store"), **variables}
        command = [program, *arguments] if shell is None else ["sh", "-c", shell, str(program), *map(str, arguments)]
        environment = {name: value for name, value in environment.items() if value is not None}
        return subprocess.run(command, env=environment, cwd=tmp_path, stdin=stdin, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=TIMEOUT)
    return call


def failed(result, exit_code, code):
    assert result.returncode == exit_code, result.stderr
    lines = result.stderr.decode().splitlines()
    assert lines and lines[-1].startswith(f"error[{code}]: "), result.stderr
    return lines[-1]


@pytest.mark.parametrize("flags", [
    ["run", "--threads", "100000"], ["run", "--threads", "-1"], ["serve", "--threads", "100000"],
    ["serve", "--threads", "-1"], ["plan", "--threads", "100000"], ["run", "--seed", "-1"],
    ["run", "--seed", "18446744073709551616"], ["run", "--seed", "1e3"], ["serve", "--max-sequences", "0"],
    ["serve", "--max-sequences", "2147483647"], ["run", "--context", "-1"], ["run", "--context", "abc"],
    ["serve", "--context", "-1"], ["plan", "--memory", "-5"], ["plan", "--memory", "0"],
    ["plan", "--memory", "99999999999999999999"], ["plan", "--memory", "abc"],
    ["plan", "--memory", "6"], ["serve", "--port", "70000"], ["run", "--max-tokens", "0"],
    ["serve", "--max-queue", "-1"], ["serve", "--max-key-requests", "-1"], ["serve", "--log-format", "2"],
    ["serve", "--log-format", "xml"]], ids=" ".join)
def test_R0_values_out_of_range(martlet, nano, flags):
    line = failed(martlet(flags[0], str(nano), *flags[1:]), 2, "usage")
    assert flags[1] in line and len(line) < 200   # names the flag, and no number with three hundred digits
    assert "->" not in line                       # what stands behind a name is not the user's to know


def test_R0_flags_win_over_the_environment_of_those_they_exclude(martlet, nano):
    failed(martlet("run", str(nano), "--raw", "--system", "x", "-p", "a"), 2, "usage")
    done = martlet("run", str(nano), "--raw", "-p", "the", "-n", "1", MARTLET_SYSTEM="x")
    assert done.returncode == 0, done.stderr
    failed(martlet("run", str(nano), "-p", "a", MARTLET_SYSTEM="x", MARTLET_RAW="1"), 2, "usage")


def test_R0_flags_of_a_command_within_a_command_have_variables_too(martlet):
    for command in (["bench", "serve"], ["bench", "spec"], ["bench", "report"]):
        assert b"MARTLET_" in martlet(*command, "--help").stdout, command
    failed(martlet("bench", "serve", MARTLET_ROUNDS="none"), 2, "usage")
    assert martlet("list", MARTLET_ROUNDS="none", MARTLET_CONTEXT="0").returncode == 0   # nor is it this command's affair


def test_R0_bench_says_when_it_goes_beyond_the_model(martlet, nano):
    done = martlet("bench", str(nano), "-p", "0", "-b", "1", "-d", "40000", "-n", "1", "-r", "1", "--memory", "1MiB")
    assert done.returncode == 4 and b"are more than the" in done.stderr, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become a user who has no processes to spare")
def test_R0_no_threads_left(program, nano):
    """As in a container with a low limit of processes: an error, not an abort."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        model, binary = shutil.copy(nano, folder), shutil.copy(program, folder)
        nobody = 65534

        def become_nobody():
            resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
            os.setgroups([])
            os.setuid(nobody)

        result = subprocess.run([binary, "run", model, "--raw", "-p", "the", "-n", "1", "--threads", "8"], timeout=TIMEOUT,
                                env={"MARTLET_HOME": folder}, stdin=subprocess.DEVNULL, capture_output=True,
                                preexec_fn=become_nobody)
        failed(result, 5, "no_threads")


def test_R0_a_seed_may_be_any_64_bits(martlet, nano):
    for seed in ("0", "18446744073709551615"):
        assert martlet("run", str(nano), "--raw", "-p", "the", "-n", "1", "--seed", seed).returncode == 0


@pytest.mark.parametrize("arguments", [
    ["show", "MODEL"], ["show", "MODEL", "--metadata", "--json"], ["tokenize", "MODEL", "hello"], ["list", "--json"],
    ["run", "MODEL", "--raw", "-p", "the", "-n", "3"], ["--help"], ["--version"]], ids=" ".join)
def test_R0_output_that_cannot_be_written(martlet, nano, arguments):
    arguments = [str(nano) if word == "MODEL" else word for word in arguments]
    with open("/dev/full", "wb") as full:
        failed(martlet(*arguments, stdout=full), 5, "io_error")
    read, write = os.pipe()
    os.close(read)   # a reader that has left: no death by a signal
    with open(write, "wb") as pipe:
        failed(martlet(*arguments, stdout=pipe), 5, "io_error")


def test_R0_an_answer_that_nobody_reads_ends_early(martlet, nano):
    with open("/dev/full", "wb") as full:
        result = martlet("run", str(nano), "--raw", "-p", "the", "-n", "8000", "--context", "8192", stdout=full)
    failed(result, 5, "io_error")


def test_R0_closed_standard_streams(martlet, nano):
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        result = martlet(str(nano), shell=f'"$0" run "$1" --raw -p the -n 1 {closed}')
        assert result.returncode == 0, (closed, result.stderr)


def test_R0_standard_input_that_cannot_be_read(martlet, nano, tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        failed(martlet("run", str(nano), stdin=folder), 5, "io_error")
        failed(martlet("tokenize", str(nano), stdin=folder), 5, "io_error")
    finally:
        os.close(folder)


@pytest.mark.parametrize("flag", ["--prompt", "--system"])
def test_B2_invalid_utf8_in_flags(martlet, nano, flag):
    flags = [flag, b"\xff\xfe"] + (["-p", "a"] if flag == "--system" else [])
    line = failed(martlet("run", str(nano), *flags), 2, "invalid_utf8")
    assert flag in line


def test_names_that_are_no_utf8_or_steer_terminals(martlet, nano, tmp_path):
    name = os.fsencode(tmp_path / "store/models") + b"/\xff\x1b[31m\xc2\x9b1m\nx.gguf"
    os.makedirs(os.path.dirname(name))
    shutil.copy(os.fsencode(nano), name)
    for output in (martlet("list").stdout, martlet("show", name).stdout, martlet("show", name + b"no").stderr):
        text = output.decode()   # UTF-8, and nothing that a terminal obeys
        assert not any(c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160) for c in text), output
    assert json.loads(martlet("list", "--json").stdout)[0]["bytes"] == pathlib.Path(nano).stat().st_size
    assert json.loads(martlet("show", name, "--json").stdout)["files"]


def test_without_home_the_users_own_folder_is_used(martlet, tmp_path):
    folder = tmp_path / ".local/share/martlet/models"   # what a relative path would find in any folder
    folder.mkdir(parents=True)
    (folder / "planted.gguf").write_bytes(b"GGUF")
    for home in (None, ""):
        assert b"planted" not in martlet("list", "--json", MARTLET_HOME=None, HOME=home).stdout


def resized_nano(path, rows, pieces):
    """A model whose embedding has `rows` rows and whose vocabulary has `pieces` tokens."""
    import gguf
    import make_model
    make_model.SHAPES["odd"] = {**make_model.SHAPES["nano"], "V": rows}
    add_token_list, add_token_types = gguf.GGUFWriter.add_token_list, gguf.GGUFWriter.add_token_types
    gguf.GGUFWriter.add_token_list = lambda self, tokens: add_token_list(self, tokens[:pieces])
    gguf.GGUFWriter.add_token_types = lambda self, types: add_token_types(self, types[:pieces])
    try:
        make_model.make_random("odd", "q8_0", str(path))
    finally:
        gguf.GGUFWriter.add_token_list, gguf.GGUFWriter.add_token_types = add_token_list, add_token_types
    return path


def test_A9_more_rows_than_tokens(martlet, tmp_path):
    """Most tokens that are drawn have no text: they are none, not what lies behind the vocabulary in memory."""
    model = resized_nano(tmp_path / "rows.gguf", 4096, 261)
    result = martlet("run", str(model), "--raw", "-p", "the", "-n", "60", "--temperature", "2", "--seed", "1")
    assert result.returncode == 0, result.stderr


def test_A9_fewer_rows_than_tokens(martlet, tmp_path):
    model = resized_nano(tmp_path / "pieces.gguf", 270, 300)
    failed(martlet("run", str(model), "--raw", "-p", "the"), 3, "bad_vocab")
    failed(martlet("serve", str(model), "--port", "0"), 3, "bad_vocab")


def test_chats_need_a_template(martlet, tmp_path):
    model = resized_nano(tmp_path / "plain.gguf", 300, 300)
    failed(martlet("run", str(model), "-p", "the"), 3, "no_chat_template")


def test_A11_a_flipped_header_ends_in_an_answer_or_a_refusal(martlet, nano, tmp_path):
    """Through everything that reads a model: container, hyperparameters, vocabulary, plan, tensors, one step."""
    import gguf
    intact, draw = nano.read_bytes(), random.Random(11)
    header = int(gguf.GGUFReader(nano).data_offset)
    flipped, ends = tmp_path / "flipped.gguf", collections.Counter()
    for _ in range(100):
        data = bytearray(intact)
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(header)] ^= draw.randint(1, 255)
        flipped.write_bytes(data)
        done = martlet("run", str(flipped), "--raw", "-p", "the", "-n", "1", "--memory", "1GiB")
        assert done.returncode in (0, 3, 4), (done.returncode, done.stderr)
        assert done.returncode == 0 or done.stderr.splitlines()[-1].startswith(b"error["), done.stderr
        ends[done.returncode] += 1
    assert ends[0] and ends[3], ends
