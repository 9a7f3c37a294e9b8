"""The server under test: started once a module on a small random model, and on the default model where it is there."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gateway import openai_upstream, steady  # noqa: E402
from server import Server  # noqa: E402
from stub_upstream import Stub  # noqa: E402

CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def pytest_configure(config):
    config.addinivalue_line("markers", "beside: measures no time that another test beside it could spoil")


@pytest.fixture
def show(record_property):
    """Takes what a test measured, for the end of the run: also of tests that pass, and of those that run side by side."""
    return lambda text: record_property("shown", text)


def pytest_terminal_summary(terminalreporter):
    reports = [r for kind in terminalreporter.stats.values() for r in kind if getattr(r, "when", None) == "call"]
    shown = [(r.nodeid.rsplit("::", 1)[-1], text) for r in reports for name, text in r.user_properties if name == "shown"]
    if shown:
        terminalreporter.section("measured")
    for test, text in shown:
        terminalreporter.line(f"{test}: {text}" if "\n" not in text else f"{test}:\n{text}")


@pytest.fixture(scope="session")
def program():
    path = Path(os.environ.get("MARTLET", ROOT / "build/release/martlet"))
    if not path.is_file():
        pytest.exit(f"the program is not built: {path}", 2)
    return path


def make_nano(path, template):
    """Two layers of random weights and 300 byte-level tokens: loads in no time, and its text is noise."""
    import make_model
    finish = make_model.finish

    def finish_with_template(writer):
        writer.add_chat_template(template)
        finish(writer)

    make_model.finish = finish_with_template
    try:
        make_model.make_random("nano", "q8_0", str(path))
    finally:
        make_model.finish = finish
    return path


@pytest.fixture(scope="session")
def nano(tmp_path_factory):
    return make_nano(tmp_path_factory.mktemp("models") / "nano.gguf", CHATML)


@pytest.fixture(scope="session")
def nano_with_bad_template(tmp_path_factory):
    return make_nano(tmp_path_factory.mktemp("models") / "bad_template.gguf", "{% if %}{{ oops")


@pytest.fixture(scope="session")
def nano_with_another_template(tmp_path_factory):
    """One line end less in each message."""
    return make_nano(tmp_path_factory.mktemp("models") / "another_template.gguf", CHATML.replace("\n", "", 1))


@pytest.fixture(scope="session")
def default_model():
    path = os.environ.get("MARTLET_TEST_MODEL")
    if not path or not Path(path).is_file():
        pytest.skip("MARTLET_TEST_MODEL names no file")
    return Path(path)


def mlx_server_program():
    """mlx_lm.server beside this Python, or where MARTLET_MLX_SERVER says; None where it is not installed."""
    found = os.environ.get("MARTLET_MLX_SERVER") or shutil.which("mlx_lm.server", path=str(Path(sys.executable).parent))
    return Path(found) if found else None


@pytest.fixture(scope="session")
def mlx_server():
    return str(mlx_server_program() or pytest.skip("mlx_lm.server is not installed"))


@pytest.fixture(scope="session")
def mlx_folder(mlx_server, default_model, tmp_path_factory):
    """The default model as an MLX folder, values exactly equal; MARTLET_MLX_FOLDER has one ready."""
    if os.environ.get("MARTLET_MLX_FOLDER"):
        return Path(os.environ["MARTLET_MLX_FOLDER"])
    folder = tmp_path_factory.mktemp("mlx")
    subprocess.run([Path(mlx_server).parent / "python", ROOT / "tools/to_mlx.py", default_model, folder], check=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def server(program, nano):
    with Server(program, nano, "--context", "2048") as running:
        yield running


@pytest.fixture(scope="module")
def real_server(program, default_model):
    with Server(program, default_model, "--context", "2048") as running:
        yield running


@pytest.fixture(scope="module")
def warm(server):
    return server.warm()


@pytest.fixture
def api(warm):
    """The module's server, for one fault: it must be the same after it as before."""
    warm.idle()
    warm.before = warm.snapshot()
    yield warm
    warm.unharmed()


@pytest.fixture
def pair(program):
    """Two stubs, the first preferred, and a gateway in front."""
    with Stub("a") as a, Stub("b") as b:
        config = {"upstreams": [openai_upstream("a", a), openai_upstream("b", b, standby=True)]}
        with steady(program, config, a, b) as gateway:
            yield a, b, gateway


@pytest.fixture
def single(program):
    """A stub that has half a second for its first byte, and a gateway in front."""
    with Stub("a") as a:
        config = {"upstreams": [openai_upstream("a", a, timeouts={"first_byte_ms": 500})]}
        with steady(program, config, a) as gateway:
            yield a, gateway
