"""The server: pages and sentences for whoever has the token, a clear answer to everything else, and a clean end."""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from unittest.mock import Mock

import httpx
import numpy as np
import pytest
import schemathesis
import uvicorn
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from playwright.sync_api import expect, sync_playwright
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from uvicorn.server import ServerState

from attnaudit.core import RunError, write_json, write_with_digest
from attnaudit.recipes.audit import audit_into
from attnaudit.report.answer import LABELS, SIGNS
from attnaudit.report.run_page import write_report
from attnaudit.server.app import MOST_BYTES, MOST_WAITING, make_app
from attnaudit.server.guard import Guard
from attnaudit.server.sentence import MOST_CHARACTERS, MOST_WORDS, Reader
from attnaudit.server.serve import PATIENCE, IdleLimit, serve
from attnaudit.steps.folder import digests
from attnaudit.tracing.texts import collect_shards
from tests.models.tiny import tiny_model, tiny_split
from tests.report.conftest import ARGUMENTS, chromium
from tests.report.runs import write_run
from tests.traces import make_trace

TOKEN = "t0ken"
SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


def write_served(folder, has_question=False):
    """A finished run with its model, which is not trained."""
    write_run(folder, make_trace(5, (3, 6)), experiments=["adversary"])
    write_report(folder)
    tiny_model("bilstm", "additive", 3 if has_question else 2, has_question=has_question).save(
        folder / "model"
    )
    spec = {
        "kind": "run",
        "corpus": {"source": "planted-decisive"},
        "model": {"encoder": "bilstm", "attention": "additive"},
        "preset": "paper",
        "seed": 0,
        "experiments": {},
    }
    write_with_digest(folder / "spec.json", spec)
    write_manifest(folder)
    return folder


def write_manifest(folder):
    """Lists all files as they are now."""
    step = {"key": "", "files": {}, "seconds": 1.0, "peak_memory_bytes": 1}
    listed = [path.name for path in folder.iterdir() if path.name != "manifest.json"]
    write_json(
        folder / "manifest.json", {"files": digests(folder, listed), "steps": {"audit": step}}
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    without = write_served(place / "without")
    (without / "model/weights.safetensors").unlink()
    write_manifest(without)
    return [write_served(place / "own"), write_served(place / "asked", has_question=True), without]


def client_of(*folders):
    """A client of runs, to enter."""
    app, address = make_app(folders, TOKEN), f"http://127.0.0.1/{TOKEN}/"
    return TestClient(app, address, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client(folders):
    with client_of(*folders) as made:
        yield made


@pytest.mark.slow
def test_pages_have_a_policy_that_lets_their_own_script_run_alone(client):
    for address in ("", "runs/0", "runs/0/type"):
        answer = client.get(address)
        assert answer.status_code == 200, answer.text
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy.partition("script-src")[2]
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert 'href="runs/0/type"' in client.get("").text
    listed = client.get("runs").json()
    assert [run["untyped"] is None for run in listed] == [True, True, False]
    assert all(run["verdict"] in client.get("").text for run in listed)
    assert {run["verdict"] for run in listed} <= {f"{SIGNS[code]} {LABELS[code]}" for code in SIGNS}
    assert "connect-src 'self'" in client.get("runs/0/type").headers["content-security-policy"]


@pytest.fixture
def lone(tmp_path, folders):
    """A run of its own, and a client that sees only this one."""
    folder = tmp_path / "lone"
    shutil.copytree(folders[0], folder)
    with client_of(folder) as made:
        yield folder, made


def linked(path):
    outside = next(parent.parent for parent in path.parents if parent.name == "lone")
    shutil.move(path, elsewhere := outside / path.name)
    path.symlink_to(elsewhere)


def linked_folder(path):
    linked(path.parent)


def piped(path):
    path.unlink()
    os.mkfifo(path)


def changed(path):
    path.write_bytes(path.read_bytes() + b" ")


@pytest.mark.parametrize("change", [changed, linked, piped, linked_folder])
@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("report.html", "runs/0"),
        ("manifest.json", "runs/0"),
        ("manifest.json", "runs/0/type"),
        ("spec.json", "runs/0/type"),
        ("model/weights.safetensors", "runs/0/type"),
        ("model/unlisted.json", "runs/0/type"),
    ],
)
def test_only_regular_files_below_the_run_are_read_as_they_were_written(
    lone, name, address, change, caplog
):
    folder, client = lone
    if name.endswith("unlisted.json"):
        (folder / name).write_text("{}")
    if change is linked_folder and "/" not in name:
        pytest.skip("its folder is the run's own, which the user names")
    change(folder / name)
    answer = client.get(address)
    if change is changed and name in ("manifest.json", "model/unlisted.json"):
        assert answer.status_code == 200, answer.text
        return
    assert answer.status_code == 409, answer.text
    said = answer.json()["error"]
    assert str(folder) in said
    assert "repeat the command that made it" in said
    assert [record.getMessage() for record in caplog.records] == [f"attnaudit: {said}"]


@pytest.mark.parametrize("change", [changed, linked, piped])
@pytest.mark.parametrize("name", ["summary.json", "results/adversary.parquet"])
def test_a_run_whose_results_were_changed_is_listed_with_the_reason(lone, name, change):
    folder, client = lone
    change(folder / name)
    [listed] = client.get("runs").json()
    assert (listed["verdict"], name in listed["untyped"]) == ("–", True)


def test_a_page_cannot_allow_itself_more_than_the_server_does(lone):
    """Also one that the manifest lists: whoever made the run wrote both."""
    folder, client = lone
    page = folder / "report.html"
    own = client.get("runs/0").headers["content-security-policy"]
    theirs = "default-src 'none'; connect-src *; script-src 'unsafe-inline' *"
    text, count = re.subn(
        '(Content-Security-Policy" content=")[^"]*',
        rf"\1{theirs}",
        page.read_text().replace("</main>", "</main><script>fetch('1')</script>"),
    )
    page.write_text(text)
    write_manifest(folder)
    answer = client.get("runs/0")
    assert (count, answer.text) == (1, text)
    assert answer.headers["content-security-policy"] == own
    assert own.count("'sha256-") == 2
    page.write_text("<script>alert(1)</script>")
    write_manifest(folder)
    policy = client.get("runs/0").headers["content-security-policy"]
    assert "'sha256-" not in policy
    assert policy.startswith("default-src 'none'")
    page.unlink()
    assert client.get("runs/0").status_code == 404


def test_a_sentence_is_read_as_the_collector_reads_it(client, folders):
    words = tiny_split([7]).tokens[0]
    found = client.post("runs/0/read", json={"text": " ".join([*words, "unheard"])}).json()
    assert found["unknown"] == ["unheard"]
    split = tiny_split([8])
    split.tokens[0] = [*words, "unheard"]
    trace = next(collect_shards(Reader.of(folders[0]).model, split, scores=()))
    one = found["instances"][0]
    assert one["tokens"] == split.tokens[0]
    assert one["predicted"] == trace.class_names[trace.predicted[0]]
    assert one["adversary"] is not None
    assert len(one["frontier"]) > 20
    assert all(np.isfinite(point).all() for point in one["frontier"])
    asked = client.post("runs/1/read", json={"text": " ".join(words), "question": "w1 w2"})
    assert asked.status_code == 200, asked.text
    assert asked.json()["model"]["tail"] is not None
    single = client.post("runs/0/read", json={"text": "w1"}).json()
    assert single["instances"] == []
    assert "one word" in single["remark"]


@pytest.mark.parametrize(
    ("run", "body", "status", "said"),
    [
        (0, {"text": "x" * (MOST_CHARACTERS + 1)}, 422, "text: String should have at most 10000"),
        (0, {"text": "w " * (MOST_WORDS + 1)}, 422, f"{MOST_WORDS + 1} words"),
        (0, {"text": "   "}, 422, "0 words"),
        (0, {"text": "w1", "path": "/etc/passwd"}, 422, "path: Extra inputs are not permitted"),
        (0, {"text": "w1 w2", "question": "w3"}, 422, "reads texts alone"),
        (1, {"text": "w1 w2"}, 422, "a question"),
        (0, ["w1"], 422, "expected"),
        (2, {"text": "w1 w2"}, 404, "model in the run"),
        (9, {"text": "w1 w2"}, 404, "no such run"),
        ("..%2f..%2fetc", {"text": "w1"}, 404, ""),
    ],
)
def test_a_bad_request_gets_a_clear_answer(client, run, body, status, said):
    answer = client.post(f"runs/{run}/read", json=body)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["error"]
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_malformed_large_and_foreign_requests_are_refused_and_the_server_stays(client):
    json_type = {"content-type": "application/json"}
    for content, status in (
        (b"{", 422),
        (b"\xff", 400),
        (b"[" * 60_000, 400),
        (b"x" * (MOST_BYTES + 1), 413),
        (b'{"text":"\\ud800"}', 422),
    ):
        answer = client.post("runs/0/read", content=content, headers=json_type)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert status == 413 or set(answer.json()) == {"error"}
    chunks = (b"x" * 1000 for _ in range(MOST_BYTES // 1000 + 1))
    assert client.post("runs/0/read", content=chunks, headers=json_type).status_code == 413
    plain = client.post(
        "runs/0/read", content=b'{"text": "w1 w2"}', headers={"content-type": "text/plain"}
    )
    assert plain.status_code == 422
    assert "expected JSON" in plain.json()["error"]
    assert client.get("runs/0/read").status_code == 405
    for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:8765", ""):
        foreign = client.get("", headers={"host": host})
        assert foreign.status_code == 400
        assert foreign.headers["x-frame-options"] == "DENY"
    for address in ("/", "/wrong/", "/wrong/runs/0", f"/{TOKEN}x/runs", "/%ff"):
        assert client.get(f"http://127.0.0.1{address}").status_code == 404
    assert client.get("runs").status_code == 200


@pytest.mark.slow
def test_the_interface_is_what_its_description_says(folders):
    app = make_app(folders, TOKEN)
    schema = schemathesis.openapi.from_asgi(
        f"/{TOKEN}/openapi.json", app, headers={"host": "127.0.0.1"}
    )
    operations = [found.ok() for found in schema.get_all_operations()]  # pyright: ignore[reportAttributeAccessIssue]
    assert len(operations) == 5

    valid = [operation.as_strategy() for operation in operations]
    broken = [operations[-1].as_strategy(generation_mode=GenerationMode.NEGATIVE)]

    @settings(
        max_examples=60,
        deadline=None,
        derandomize=True,
        suppress_health_check=SLOW,
        phases=[Phase.generate],
    )
    @given(case=st.one_of(valid + broken))
    def fuzz(case):
        # how many words a text has, and whether a model reads questions, is no part of a schema
        case.call_and_validate(
            headers={"host": "127.0.0.1"},
            base_url=f"http://127.0.0.1/{TOKEN}",
            excluded_checks=[positive_data_acceptance],
        )

    fuzz()


def test_a_model_is_loaded_once_for_all_who_ask_meanwhile_and_few_may_wait(folders, monkeypatch):
    loaded, reader = [], Mock(epsilon=0.1)
    reader.model.has_question = False

    def slow(folder):
        loaded.append(folder)
        time.sleep(0.3)
        return reader

    monkeypatch.setattr(Reader, "of", slow)

    async def ask(count):
        transport = httpx.ASGITransport(make_app(folders[:1], TOKEN))
        base = f"http://127.0.0.1/{TOKEN}/"
        async with httpx.AsyncClient(transport=transport, base_url=base) as several:
            answers = asyncio.gather(*(several.get("runs/0/type") for _ in range(count)))
            return Counter(answer.status_code for answer in await answers)

    assert asyncio.run(ask(MOST_WAITING + 5)) == {200: MOST_WAITING, 503: 5}
    assert len(loaded) == 1


def test_a_run_that_was_damaged_or_removed_hides_no_other(folders, tmp_path):
    shutil.copytree(folders[2], tmp_path / "damaged")
    shutil.copytree(folders[2], tmp_path / "removed")
    made = client_of(tmp_path / "damaged", tmp_path / "removed", folders[0])
    (tmp_path / "damaged/spec.json").write_text("{")
    shutil.rmtree(tmp_path / "removed")
    with made as client:
        start, listed = client.get(""), client.get("runs").json()
        assert start.status_code == 200
        assert 'href="runs/2/type"' in start.text
        assert [run["untyped"] is None for run in listed] == [False, False, True]
        assert "spec.json" in listed[0]["untyped"]
        assert client.get("runs/1/type").status_code == 422


def test_an_audit_is_listed_with_what_its_trace_says(tmp_path):
    trace = make_trace(6, (3, 6))
    trace.write(tmp_path / "trace")
    folder = audit_into(tmp_path / "audit", tmp_path / "trace", ("prediction",))
    with client_of(folder) as client:
        [found] = client.get("runs").json()
    assert "unknown" not in found["corpus"] + found["model"]


def test_a_connection_without_a_request_is_closed_after_a_while():
    """Also one on which a request was answered and the next one never ends."""
    later = []
    for answered in (False, True):
        transport = Mock(spec=asyncio.Transport, is_closing=lambda: False)
        loop = Mock(call_later=lambda *call: later.append(call))
        protocol = IdleLimit(uvicorn.Config(None), ServerState(), {}, loop)  # type: ignore[arg-type]
        protocol.connection_made(transport)
        if answered:
            protocol.cycle = Mock(response_complete=False, more_body=False)  # type: ignore[assignment]  # a request has arrived
            for complete in (False, False, True):
                seconds, expire, last = later.pop()
                expire(last)
                assert (seconds, transport.close.called) == (PATIENCE, False)
                protocol.cycle.response_complete = complete
        seconds, expire, last = later.pop()
        expire(last)
        assert (seconds, transport.close.called) == (PATIENCE, True)


def guarded(app, path, cancel=False):
    """The status that a request for ``path`` gets; with ``cancel``, the server ends before ``app`` has answered."""
    scope = {
        "type": "http",
        "method": "OPTIONS",
        "path": path,
        "headers": [(b"host", b"127.0.0.1")],
    }
    sent = []

    async def send(message):
        sent.append(message)

    async def answered():
        task = asyncio.ensure_future(Guard(app, TOKEN)(scope, None, send))
        await asyncio.sleep(0)
        if cancel:
            task.cancel()
        await task

    asyncio.run(answered())
    assert {b"x-frame-options", b"content-security-policy"} <= {
        name for name, _ in sent[0]["headers"]
    }
    return sent[0]["status"]


def test_a_target_that_is_no_path_is_refused():
    """As of ``OPTIONS * HTTP/1.1``."""
    assert [guarded(None, path) for path in ("*", "a:1", "")] == [404] * 3


def test_an_answer_that_is_not_waited_for_at_the_end_is_one_line():
    async def slow(scope, receive, send):
        await asyncio.sleep(60)

    assert guarded(slow, f"/{TOKEN}/", cancel=True) == 503


def test_bad_runs_and_a_port_in_use_are_one_line(folders, tmp_path):
    with pytest.raises(RunError, match="no such folder"):
        serve([tmp_path / "nothing"])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(
            RunError, match=r"port \d+: in use; expected a free port; choose another"
        ):
            serve(folders, taken.getsockname()[1])


@pytest.fixture(scope="module")
def served(folders):
    """The command, and the address that it printed."""
    command = [
        *(sys.executable, "-u", "-m", "attnaudit", "report"),
        *(*map(str, folders), "--serve", "--port", "0"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process, process.stdout.readline().strip()
    process.kill()
    process.wait()
    for stream in filter(None, (process.stdout, process.stderr)):
        stream.close()


def test_a_sentence_is_typed_in_a_browser_and_the_command_ends_cleanly(served):
    process, address = served
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", address)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 390, "height": 844})
        complaints = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        page.get_by_role("link", name="own", exact=True).click()
        expect(page.locator("#playground")).to_be_visible()
        page.go_back()
        page.get_by_role("link", name="Type a sentence for own").click()
        page.get_by_role("textbox", name="Text").fill("w1 <img src=x onerror=alert(1)> w2 w3")
        page.get_by_role("button", name="Read it").click()
        expect(page.locator("#live-said")).to_contain_text("read in")
        page.locator(".play-bar").nth(1).press("PageUp")
        assert float(page.locator("#play-jsd").inner_text()) > 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("textbox", name="Text").fill("x " * 500)
        page.get_by_role("button", name="Read it").click()
        expect(page.locator("#live-said")).to_contain_text("500 words")
        assert [said for said in complaints if "422" not in said] == []
        browser.close()
    with socket.create_connection(("127.0.0.1", int(address.split(":")[2].split("/")[0]))) as half:
        half.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999\r\n\r\n{")
    assert httpx.get(f"{address}runs").status_code == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
