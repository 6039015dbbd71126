"""The clients that are made from a URL and a key."""

from __future__ import annotations

import sys
from contextlib import closing

import pytest

from loopmachine import models, run
from loopmachine.errors import LoopError
from loopmachine.models.clients import client
from loopmachine.testing import wire_server
from tests.sdks import every_maker

#: By maker: where a request goes, below the server's root; the header that bears the key, and how.
SENT = {
    "openai_chat": ("/v1/chat/completions", "authorization", "Bearer key"),
    "openai_responses": ("/v1/responses", "authorization", "Bearer key"),
    "anthropic": ("/v1/messages", "authorization", "Bearer key"),
    "google": ("/v1beta/models/m1:generateContent", "x-goog-api-key", "key"),
}


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
@every_maker
def test_a_client_asks_where_the_url_says(maker: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With or without the API's version and a slash at its end, with the key, whatever the environment says."""
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another")
    path, header, value = SENT[maker]
    end = end.replace("v1", "v1beta") if maker == "google" else end
    with wire_server("done") as server, closing(client(maker, server.url + end, "key")) as made:
        result = run(getattr(models, maker)(made, "m1"), "go")
        (request,) = server.requests
    assert (result.text, request.path, request.headers[header]) == ("done", path, value)


def test_a_path_of_the_provider_s_own_is_kept() -> None:
    """Nothing is put after it for OpenAI's SDK."""
    with closing(client("openai_chat", "https://example.com/api/paas/v4/", "key")) as made:
        assert str(made.base_url) == "https://example.com/api/paas/v4/"


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8080", "localhost:8080", "ftp://a", "http://", "http://a:0", "http://a:x", "http://[::1"]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    """In a sentence that shows one."""
    with pytest.raises(LoopError) as refused:
        client("openai_chat", url, "key")
    assert str(refused.value) == f"the server's URL must be one such as http://127.0.0.1:8080, not {url!r}"


@pytest.mark.parametrize(
    ("maker", "package", "extra"),
    [
        ("openai_chat", "openai", "openai"),
        ("openai_responses", "openai", "openai"),
        ("anthropic", "anthropic", "anthropic"),
        ("google", "google.genai", "google"),
    ],
)
def test_without_the_sdk_the_extra_is_named(
    maker: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says what to install."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(LoopError) as refused:
        client(maker, "http://127.0.0.1:8080", "key")
    assert str(refused.value) == (
        f"models.{maker} needs an SDK that is not installed here (import of {package} halted; None in sys.modules): "
        f"pip install 'loopmachine[{extra}]'"
    )
