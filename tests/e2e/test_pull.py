"""`martlet pull`, `list` and `rm` against a hub of our own. FAULTS F1 to F4 and F7; F5 is in tests/unit/hub."""

import json
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest
from fake_hub import COMMIT, FakeHub
from server import eventually

pytestmark = pytest.mark.beside
MARTLET = os.environ.get("MARTLET", str(pathlib.Path(__file__).parents[2] / "build/release/martlet"))
MIB = 1 << 20
DATA = random.Random(7).randbytes(24 * MIB + 12345)  # 25 chunks of 1 MiB
REPOSITORY = "some-one/Model_1.5-GGUF"


@pytest.fixture
def hub():
    with FakeHub() as server:
        yield server


@pytest.fixture
def martlet(hub, tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}

    def run(*arguments, **variables):
        variables = {**environment, **hub.environment(tmp_path), **variables}
        return subprocess.run([MARTLET, *arguments], env=variables, capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL)

    run.environment = {**environment, **hub.environment(tmp_path)}
    return run


def cache(tmp_path):
    return tmp_path / "hub" / "models--some-one--Model_1.5-GGUF"


def everything_below(folder):
    return [path for path in folder.rglob("*") if not path.is_dir()]


def failed(result, exit_code, code):
    assert result.returncode == exit_code, result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith(f"error[{code}]: "), result.stderr


def holds_no_model(tmp_path):
    """No final name, whatever partial files there are."""
    blobs = cache(tmp_path) / "blobs"
    names = [path.name for path in blobs.iterdir()] if blobs.exists() else []
    return all(".part" in name for name in names) and not (cache(tmp_path) / "snapshots").exists()


# --- What works ---------------------------------------------------------------------------------------------------


def test_pulls_into_the_hubs_cache_layout(hub, martlet, tmp_path):
    digest = hub.add(REPOSITORY, "sub/model.Q8_0.gguf", DATA)
    result = martlet("pull", f"hf:{REPOSITORY}")
    assert result.returncode == 0, result.stderr
    path = pathlib.Path(result.stdout.strip())
    assert path == cache(tmp_path) / "snapshots" / COMMIT / "sub/model.Q8_0.gguf"
    assert os.readlink(path) == f"../../../blobs/{digest}"
    assert path.read_bytes() == DATA
    assert (cache(tmp_path) / "refs/main").read_text() == COMMIT
    assert [p.name for p in (cache(tmp_path) / "blobs").iterdir()] == [digest]
    assert "downloading" in result.stderr and "/s" in result.stderr

    before = len(hub.requests)
    assert martlet("pull", REPOSITORY).returncode == 0
    assert not any(path.startswith("/cdn") for _, path, _, _ in hub.requests[before:]), "nothing is fetched twice"


def test_ranges_cover_the_file_once_over_several_connections(hub, martlet):
    hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.delay = 0.001
    assert martlet("pull", REPOSITORY).returncode == 0
    ranges = sorted(hub.body_ranges())
    assert ranges[0][0] == 0 and ranges[-1][1] == len(DATA)
    assert all(a[1] == b[0] for a, b in zip(ranges, ranges[1:]))


def test_a_small_file_is_one_request(hub, martlet):
    hub.add(REPOSITORY, "model.gguf", b"GGUF")
    assert martlet("pull", REPOSITORY).returncode == 0


def test_chooses_q4_k_m_or_lists_the_choices(hub, martlet):
    for name in ("m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q5_0.gguf"):
        hub.add(REPOSITORY, name, name.encode() * 10)
    assert martlet("pull", REPOSITORY).stdout.strip().endswith("m-Q4_K_M.gguf")
    assert martlet("pull", f"hf:{REPOSITORY}:Q5_0").stdout.strip().endswith("m-Q5_0.gguf")
    assert martlet("pull", f"hf:{REPOSITORY}:m-Q8_0.gguf").stdout.strip().endswith("m-Q8_0.gguf")
    hub.add("some-one/Two", "a-Q8_0.gguf", b"a")
    hub.add("some-one/Two", "b-Q8_0.gguf", b"b")
    result = martlet("pull", "some-one/Two")
    failed(result, 2, "ambiguous_file")
    assert "a-Q8_0.gguf" in result.stderr and "b-Q8_0.gguf" in result.stderr


def test_pulls_all_parts_of_a_split_model(hub, martlet, tmp_path):
    names = [f"big-Q4_K_M-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    for name in names:
        hub.add(REPOSITORY, name, name.encode())
    result = martlet("pull", REPOSITORY)
    assert result.stdout.strip().endswith(names[0])
    assert sorted(p.name for p in (cache(tmp_path) / "snapshots" / COMMIT).iterdir()) == names


def test_goes_on_after_a_broken_connection_and_a_busy_server(hub, martlet):
    hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.truncate, hub.faults.truncate_once, hub.faults.fail_bodies = 1000, True, 0
    assert martlet("pull", REPOSITORY).returncode == 0


def test_busy_server(hub, martlet):
    hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.fail_bodies = 3
    assert martlet("pull", REPOSITORY).returncode == 0


def test_asks_the_hub_again_when_a_signed_url_runs_out(hub, martlet):
    hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.expire_after = 5
    assert martlet("pull", REPOSITORY).returncode == 0


def test_unknown_repositories_and_bad_references(hub, martlet, tmp_path):
    failed(martlet("pull", "hf:no/body"), 6, "not_found")
    for reference in ("hf:../x", "hf:a/b:../c", "nonsense", "hf:a/b/c"):
        failed(martlet("pull", reference), 2, "bad_reference")
    failed(martlet("pull", REPOSITORY, HF_ENDPOINT="ftp://127.0.0.1"), 2, "bad_endpoint")
    failed(martlet("pull", REPOSITORY, HF_ENDPOINT="http://127.0.0.1:1"), 6, "network_error")
    assert not cache(tmp_path).exists()


# --- Faults -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digest", ["../../../../evil", "a" * 63, "A" * 64, "a" * 62 + ".."])
@pytest.mark.parametrize("where", ["digest", "linked_etag"])
def test_F1_invalid_digest_writes_nothing(hub, martlet, tmp_path, digest, where):
    hub.add(REPOSITORY, "model.gguf", DATA)
    setattr(hub.faults, where, digest)
    failed(martlet("pull", REPOSITORY), 6, "invalid_digest")
    assert everything_below(tmp_path) == []


def test_F1_paths_that_leave_the_repository(hub, martlet, tmp_path):
    for path in ("../../evil.gguf", "/evil.gguf", "a//b.gguf", "a\\..\\b.gguf"):
        hub.faults.manifest = json.dumps({"sha": COMMIT, "siblings": [{"rfilename": path}]}).encode()
        hub.add(REPOSITORY, "model.gguf", DATA)
        failed(martlet("pull", REPOSITORY), 6, "bad_manifest")
    for commit in ("../../..", "", "0" * 39):
        hub.faults.manifest = json.dumps({"sha": commit, "siblings": [{"rfilename": "model.gguf"}]}).encode()
        failed(martlet("pull", REPOSITORY), 6, "bad_manifest")
    assert everything_below(tmp_path) == []


def test_F2_digest_mismatch(hub, martlet, tmp_path):
    hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.corrupt_at = 10 * MIB
    failed(martlet("pull", REPOSITORY), 6, "digest_mismatch")
    assert holds_no_model(tmp_path)
    hub.faults.corrupt_at = -1
    assert martlet("pull", REPOSITORY).returncode == 0


def test_F2_verified_parts_are_kept(hub, martlet, tmp_path):
    good = hub.add(REPOSITORY, "m-00001-of-00002.gguf", DATA)
    hub.add(REPOSITORY, "m-00002-of-00002.gguf", DATA[: 2 * MIB])
    hub.faults.digest = ""
    first = martlet("pull", REPOSITORY)
    assert first.returncode == 0
    (cache(tmp_path) / "snapshots" / COMMIT / "m-00002-of-00002.gguf").resolve().unlink()
    hub.faults.corrupt_at = 5
    before = len(hub.requests)
    failed(martlet("pull", REPOSITORY), 6, "digest_mismatch")
    assert (cache(tmp_path) / "blobs" / good).read_bytes() == DATA
    assert not any("m-00001" in path and path.startswith("/cdn") for _, path, _, _ in hub.requests[before:])


def test_F2_chunks_damaged_on_disk_are_fetched_again_and_only_those(hub, martlet, tmp_path):
    digest = hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.hold_after = 12   # of 25 chunks
    process = subprocess.Popen([MARTLET, "pull", REPOSITORY], env=martlet.environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    wait_for_journal(cache(tmp_path) / "blobs" / f"{digest}.part-journal", 6)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = journaled(cache(tmp_path) / "blobs" / f"{digest}.part-journal")
    with open(cache(tmp_path) / "blobs" / f"{digest}.part", "r+b") as part:
        part.seek(done[0] * MIB + 17)
        part.write(b"\0damage\0")
    hub.faults.hold_after, hub.requests[:] = -1, []
    assert martlet("pull", REPOSITORY).returncode == 0
    fetched = {begin // MIB for begin, _ in hub.body_ranges()}
    assert done[0] in fetched and not fetched & set(done[1:])


def journaled(path):
    lines = path.read_text().splitlines()[1:] if path.exists() else []
    return [int(line.split()[0]) for line in lines if len(line.split()) == 2 and len(line.split()[1]) == 64]


def wait_for_journal(path, chunks):
    assert eventually(lambda: len(journaled(path)) >= chunks, 30)


def test_F3_killed_at_twenty_points(hub, martlet, tmp_path):
    """Killed over and over: no attempt fetches a chunk that an earlier one had whole."""
    digest = hub.add(REPOSITORY, "model.gguf", DATA)
    journal = cache(tmp_path) / "blobs" / f"{digest}.part-journal"
    hub.faults.delay = 0.002
    pauses = random.Random(3)
    for _ in range(20):
        whole = journaled(journal)
        hub.requests[:] = []
        process = subprocess.Popen([MARTLET, "pull", REPOSITORY], env=martlet.environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(0.03 + pauses.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert holds_no_model(tmp_path) or (cache(tmp_path) / "blobs" / digest).read_bytes() == DATA
        assert not {begin // MIB for begin, _ in hub.body_ranges()} & set(whole)
    # What was under way when it was killed, at most one chunk a connection, is all that is fetched again.
    whole, hub.requests[:] = journaled(journal), []
    result = martlet("pull", REPOSITORY)
    assert result.returncode == 0, result.stderr
    assert pathlib.Path(result.stdout.strip()).read_bytes() == DATA
    assert not {begin // MIB for begin, _ in hub.body_ranges()} & set(whole)


def test_F4_range_ignored_restarts_with_the_whole_file(hub, martlet):
    hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.ignore_range = True
    result = martlet("pull", REPOSITORY)
    assert result.returncode == 0, result.stderr
    assert pathlib.Path(result.stdout.strip()).read_bytes() == DATA


@pytest.mark.parametrize("fault", [{"change_etag_after": 3}, {"short_range": 100}, {"long_body": 5},
                                   {"long_body": 5, "ignore_range": True}])
def test_F4_source_changed(hub, martlet, tmp_path, fault):
    hub.add(REPOSITORY, "model.gguf", DATA)
    for name, value in fault.items():
        setattr(hub.faults, name, value)
    failed(martlet("pull", REPOSITORY), 6, "source_changed")
    assert holds_no_model(tmp_path)


def test_F4_bodies_that_always_end_early(hub, martlet, tmp_path):
    hub.add(REPOSITORY, "model.gguf", DATA[:MIB])
    hub.faults.truncate = 100
    failed(martlet("pull", REPOSITORY), 6, "source_changed")
    assert holds_no_model(tmp_path)


@pytest.mark.parametrize("manifest", [b"", b"{}", b"[]", b"null", b"<html>", b'{"sha":"' + b"0" * 40 + b'","siblings":{}}',
                                      b"[" * 100000, b" " * (17 * MIB)])
def test_F7_bad_manifest(hub, martlet, tmp_path, manifest):
    hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.manifest = manifest
    failed(martlet("pull", REPOSITORY), 6, "bad_response" if len(manifest) > 16 * MIB else "bad_manifest")
    assert everything_below(tmp_path) == []


def test_F7_gzip_bomb(hub, martlet, tmp_path):
    hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.gzip_manifest = True
    failed(martlet("pull", REPOSITORY), 6, "bad_response")
    assert everything_below(tmp_path) == []


@pytest.mark.parametrize("place", ["http://169.254.169.254/latest/meta-data", "http://10.1.2.3/x", "http://[fd00::1]/x",
                                   "http://[::ffff:192.168.0.1]/x", "http://2852039166/", "http://0/", "file:///etc/passwd",
                                   "http://user:secret@127.0.0.1/"])
def test_F7_redirects_to_private_addresses(hub, martlet, tmp_path, place):
    hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.redirect_to = place
    failed(martlet("pull", REPOSITORY), 6, "redirect_refused")
    assert holds_no_model(tmp_path)


def test_F7_redirect_loop(hub, martlet, tmp_path):
    hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.redirect_to = f"{hub.url}/{REPOSITORY}/resolve/{COMMIT}/model.gguf"
    failed(martlet("pull", REPOSITORY), 6, "redirect_refused")


def test_F7_foreign_realm_is_not_followed(hub, martlet, tmp_path):
    hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.realm = f"{hub.cdn_url}/token"
    failed(martlet("pull", REPOSITORY, HF_TOKEN="hf_secret"), 6, "unauthorized")
    assert all(not path.startswith("/token") for _, path, _, _ in hub.requests)


def test_F7_the_token_goes_to_the_origin_only(hub, martlet, tmp_path):
    hub.add(REPOSITORY, "model.gguf", DATA)
    result = martlet("pull", REPOSITORY, HF_TOKEN="hf_secret")
    assert result.returncode == 0 and "hf_secret" not in result.stderr + result.stdout
    origin = hub.server.server_address[1]
    assert {port for *_, port in hub.requests} == {origin, hub.cdn.server_address[1]}
    for _, path, headers, port in hub.requests:
        assert headers.get("Authorization") == ("Bearer hf_secret" if port == origin else None), path


def test_token_file_and_bad_tokens(hub, martlet, tmp_path):
    hub.add(REPOSITORY, "model.gguf", b"GGUF")
    (tmp_path / "token").write_text("hf_from_file\n")
    assert martlet("pull", REPOSITORY).returncode == 0
    assert hub.requests[0][2]["Authorization"] == "Bearer hf_from_file"
    failed(martlet("pull", REPOSITORY, HF_TOKEN="a\r\nX-Evil: 1"), 2, "bad_token")


def test_two_at_once(hub, martlet, tmp_path):
    hub.add(REPOSITORY, "model.gguf", DATA)
    hub.faults.hold_after = 0
    first = subprocess.Popen([MARTLET, "pull", REPOSITORY], env=martlet.environment, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    assert eventually(hub.body_ranges, 30)
    failed(martlet("pull", REPOSITORY), 5, "file_busy")
    hub.faults.hold_after = -1
    assert first.wait(60) == 0


# --- list and rm --------------------------------------------------------------------------------------------------


def test_list_and_rm(hub, martlet, tmp_path):
    hub.add(REPOSITORY, "a-Q8_0.gguf", b"same")
    hub.add(REPOSITORY, "b-Q4_0.gguf", b"same")
    assert json.loads(martlet("list", "--json").stdout) == []
    for name in ("a-Q8_0", "b-Q4_0"):
        assert martlet("pull", f"hf:{REPOSITORY}:{name}.gguf").returncode == 0
    rows = json.loads(martlet("list", "--json").stdout)
    assert [(row["name"], row["bytes"]) for row in rows] == [(f"hf:{REPOSITORY}:{n}.gguf", 4) for n in ("a-Q8_0", "b-Q4_0")]
    assert "b-Q4_0.gguf" in martlet("list").stdout

    failed(martlet("rm", f"hf:{REPOSITORY}:a-Q8_0.gguf"), 2, "not_confirmed")
    assert martlet("rm", "--yes", f"hf:{REPOSITORY}:a-Q8_0.gguf").returncode == 0
    blobs = list((cache(tmp_path) / "blobs").iterdir())
    assert len(blobs) == 1 and blobs[0].read_bytes() == b"same", "the other file still needs the blob"
    assert martlet("rm", "--yes", f"hf:{REPOSITORY}").returncode == 0
    assert not cache(tmp_path).exists()
    failed(martlet("rm", "--yes", f"hf:{REPOSITORY}"), 5, "model_not_found")


def test_rm_leaves_files_outside_the_store_alone(martlet, tmp_path):
    outside = tmp_path / "mine.gguf"
    outside.write_bytes(b"GGUF")
    failed(martlet("rm", "--yes", str(outside)), 5, "model_not_found")
    assert outside.exists()


def test_store_models(martlet, tmp_path):
    folder = tmp_path / "martlet/models"
    folder.mkdir(parents=True)
    (folder / "other.gguf").write_bytes(b"GGUF")
    (folder / "SmolLM2-135M-Instruct.Q4_1.gguf").write_bytes(b"GGUF")
    names = [row["name"] for row in json.loads(martlet("list", "--json").stdout)]
    assert names == [str(folder / "other.gguf"), "smollm2"]
    assert martlet("rm", "--yes", "smollm2").returncode == 0
    assert [path.name for path in folder.iterdir()] == ["other.gguf"]


def test_environment_mirrors_flags(martlet):
    assert json.loads(martlet("list", MARTLET_JSON="1").stdout) == []
    failed(martlet("pull", "a/b", MARTLET_CONNECTIONS="0"), 2, "usage")
