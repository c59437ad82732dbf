"""Who is let in, what every answer carries, and what the log does not."""

from __future__ import annotations

import logging

import pytest
from servers import TOKEN, Served, png, wait_for

from fake_encoder import squares
from piaa.errors import InputError
from piaa.serve.running import listen
from piaa.serve.security import HEADERS, check_binding

PHOTO = png(squares(1, ["red"], size=(64, 64)))


@pytest.mark.parametrize("path", ["/v1/model", "/metrics", "/openapi.json", "/nowhere"])
@pytest.mark.parametrize(
    "sent",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        f"Basic {TOKEN}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
    ],
)
def test_without_the_token_there_is_no_answer(guarded: Served, path: str, sent: str | None) -> None:
    answer = guarded.ask("GET", path, headers={} if sent is None else {"Authorization": sent})
    assert (answer.status, answer.problem) == (401, "token-needed")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_bodies_without_the_token_are_not_read(guarded: Served) -> None:
    assert guarded.post("/v1/tags", [("a.png", PHOTO)]).status == 401


def test_with_the_token_there_is(guarded: Served) -> None:
    sent = {"Authorization": f"bearer {TOKEN}", "Host": "photos.example.org"}
    answer = guarded.ask("GET", "/v1/model", headers=sent)
    assert answer.status == 200
    assert answer.json()["fitted"] is False
    assert answer.json()["heatmap_kinds"] == ["fused", "text"]
    document = guarded.ask("GET", "/openapi.json", headers=sent).json()
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


@pytest.mark.parametrize("path", ["/", "/app.js", "/healthz", "/readyz", "/problems"])
def test_the_page_and_health_need_no_token(guarded: Served, path: str) -> None:
    assert guarded.ask("GET", path).status == 200


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:80", "127.1.2.3", "[::1]:8000"])
def test_this_machine_is_known_by_its_names(served: Served, host: str) -> None:
    assert served.ask("GET", "/v1/model", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "192.168.0.1", "[::1", ""]
)
def test_a_name_that_points_here_is_not_enough(served: Served, host: str) -> None:
    answer = served.ask("GET", "/v1/model", headers={"Host": host})
    assert (answer.status, answer.problem) == (403, "foreign-page")


def test_other_sites_may_not_ask(served: Served) -> None:
    host = f"127.0.0.1:{served.port}"
    own = served.ask("GET", "/v1/model", headers={"Host": host, "Origin": f"http://{host}"})
    assert own.status == 200
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        answer = served.ask("GET", "/v1/model", headers={"Host": host, "Origin": origin})
        assert (answer.status, answer.problem) == (403, "foreign-page")
        assert "access-control-allow-origin" not in answer.headers
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = served.ask("OPTIONS", "/v1/tags", headers={"Host": host, **asked})
    assert answer.status == 403


@pytest.mark.parametrize("path", ["/", "/app.js", "/v1/model", "/nowhere", "/metrics"])
def test_every_answer_carries_the_headers(served: Served, path: str) -> None:
    answer = served.ask("GET", path)
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    assert "server" not in answer.headers
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


def test_the_page_asks_for_nothing_elsewhere(served: Served) -> None:
    for path in ("/", "/style.css", "/app.js", "/api.js", "/photo.js", "/heat.js", "/results.js"):
        content = served.ask("GET", path).content.decode()
        assert "http://" not in content
        assert "https://" not in content
        assert "style=" not in content  # which the policy would not let through


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1"])
def test_beyond_this_machine_a_token_is_needed(host: str) -> None:
    with pytest.raises(InputError, match="reachable from other machines"):
        check_binding(host, None)
    check_binding(host, TOKEN)


def test_this_machine_needs_none_but_a_token_must_be_long() -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        check_binding(host, None)
    with pytest.raises(InputError, match="at least 16"):
        check_binding("127.0.0.1", "secret")
    with pytest.raises(InputError, match="no address"):
        check_binding("no-such-host.invalid", None)


def test_a_taken_port_is_an_error_that_says_so() -> None:
    with (
        listen("127.0.0.1", 0) as taken,
        pytest.raises(InputError, match="it is taken"),
    ):
        listen("127.0.0.1", taken.getsockname()[1])


def test_the_log_holds_no_content(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        served.post("/v1/tags", [("holiday-secret.png", PHOTO), ("x", b"pixel-secret")])
        served.post("/v1/classes", [("x", PHOTO)], classes="label-secret\nother")
        served.post_json("/v1/tags", {"images": [{"data": "word-secret"}]})
        served.ask("GET", "/path-secret%0Ainjected?query-secret", headers={"X": "header-secret"})
        wait_for(lambda: "GET other 404 " in caplog.text)  # written once the answer is out
    assert "POST /v1/tags 200 " in caplog.text
    assert "secret" not in caplog.text
    assert "injected" not in caplog.text
