"""What clients do all day, with the real `openai` client."""
import threading
import time

import openai
import pytest

from server import Server, eventually

HELLO = [{"role": "user", "content": "Hello!"}]


@pytest.fixture(scope="module", params=["server", "real_server"])
def api(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def client(api):
    return openai.OpenAI(base_url=api.url + "/v1", api_key="unused", max_retries=0, timeout=120)


def test_chat(client):
    answer = client.chat.completions.create(model="default", messages=HELLO, max_tokens=8, temperature=0)
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and isinstance(choice.message.content, str)
    assert choice.finish_reason in ("stop", "length")
    assert 0 < answer.usage.completion_tokens <= 8
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stream_equals_whole(client):
    ask = dict(model="default", messages=HELLO, max_tokens=24, temperature=0)
    whole = client.chat.completions.create(**ask)
    text, reason, usage = "", None, None
    for chunk in client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reason = choice.finish_reason or reason
        usage = chunk.usage or usage
    assert text == whole.choices[0].message.content
    assert reason == whole.choices[0].finish_reason
    assert usage.completion_tokens == whole.usage.completion_tokens


def test_history_of_several_messages(client):
    messages = [{"role": "system", "content": "Be brief."}, *HELLO, {"role": "assistant", "content": "Hi."},
                {"role": "user", "content": [{"type": "text", "text": "Bye"}]}]
    assert client.chat.completions.create(model="default", messages=messages, max_tokens=4).choices


def test_completions_with_token_ids_and_logprobs(client):
    ids = [72, 101, 108, 108, 111]
    answer = client.completions.create(model="default", prompt=ids, max_tokens=6, temperature=0, logprobs=5,
                                       extra_body={"ignore_eos": True})
    logprobs = answer.choices[0].logprobs
    assert answer.usage.prompt_tokens == len(ids)
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.token_ids) == 6
    assert all(value <= 0 for value in logprobs.token_logprobs)
    for token, value, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs):
        assert top[token] == max(top.values()) == value   # greedy takes the likeliest


def test_several_prompts_and_choices(client):
    answer = client.completions.create(model="default", prompt=["One", "Two"], n=2, max_tokens=4, temperature=1, seed=3)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]


def test_echo_scores_the_prompt(client):
    answer = client.completions.create(model="default", prompt="Hello world", max_tokens=0, echo=True, logprobs=1)
    logprobs = answer.choices[0].logprobs
    assert answer.choices[0].text == "Hello world"
    assert logprobs.token_logprobs[0] is None and all(value <= 0 for value in logprobs.token_logprobs[1:])
    assert "".join(logprobs.tokens).endswith("Hello world")
    assert answer.usage.completion_tokens == 0


def test_chat_logprobs_spell_the_text(client):
    answer = client.chat.completions.create(model="default", messages=HELLO, max_tokens=8, temperature=0, logprobs=True,
                                            top_logprobs=20, extra_body={"ignore_eos": True})
    content = answer.choices[0].logprobs.content
    assert len(content) == 8 and all(len(entry.top_logprobs) == 20 for entry in content)
    spelled = b"".join(bytes(entry.bytes) for entry in content).decode(errors="replace")
    assert spelled.startswith(answer.choices[0].message.content[:4])


def test_seed_repeats(client):
    ask = dict(model="default", prompt="Once upon a time", max_tokens=16, temperature=1.0, seed=11)
    first, second = (client.completions.create(**ask).choices[0].text for _ in range(2))
    assert first == second
    others = {client.completions.create(**(ask | {"seed": seed})).choices[0].text for seed in range(4)}
    assert len(others) > 1


def test_stop_string(client):
    ask = dict(model="default", prompt="Once upon a time", max_tokens=32, temperature=0, extra_body={"ignore_eos": True})
    text = client.completions.create(**ask).choices[0].text
    stop = text[len(text) // 2:][:3]
    answer = client.completions.create(**ask, stop=[stop])
    assert answer.choices[0].text == text[:text.index(stop)]
    assert answer.choices[0].finish_reason == "stop"


def test_models(client, api):
    models = client.models.list().data
    assert len(models) == 1
    assert client.models.retrieve(models[0].id).id == models[0].id
    assert client.models.retrieve("default").id == models[0].id


def test_errors(client):
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(model="nobody", messages=HELLO)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as unsupported:
        client.chat.completions.create(model="default", messages=HELLO, tools=[
            {"type": "function", "function": {"name": "f", "parameters": {}}}])
    assert (unsupported.value.code, unsupported.value.param) == ("unsupported_parameter", "tools")
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="default", messages=HELLO, temperature=3)
    assert wrong.value.param == "temperature"


def test_cancellation_frees_the_sequence(client, api):
    """Before all of its tokens are computed, which takes the small model so little that this may come too late."""
    def cut_short():
        before = api.metric("martlet_output_tokens_total")
        stream = client.completions.create(model="default", prompt="Once", max_tokens=1500, stream=True,
                                           extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        assert eventually(lambda: api.metric("martlet_requests_running") == 0)
        return api.metric("martlet_output_tokens_total") - before < 1500
    assert eventually(cut_short)


def test_sixteen_streams_none_waits(client, api):
    """Every stream has its first token before any has its last, and none fails."""
    first, last, failures = {}, {}, []
    length = 4000 if api.model.name == "nano.gguf" else 64   # long enough for sixteen clients to start meanwhile

    def run(index):
        try:
            stream = client.completions.create(model="default", prompt=f"Story {index}:", max_tokens=length, stream=True,
                                               temperature=0, extra_body={"ignore_eos": True})
            chunks = 0
            for chunk in stream:
                if chunk.choices and chunk.choices[0].text:
                    first.setdefault(index, time.monotonic())
                    chunks += 1
            last[index] = time.monotonic()
            assert chunks > 0
        except Exception as error:  # whatever it is, the test must name it
            failures.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert max(first.values()) < min(last.values())


def test_greedy_is_the_same_among_others(client):
    """One answer alone, and again while fifteen others run: the same text."""
    ask = dict(model="default", prompt="The capital of France is", max_tokens=24, temperature=0)
    alone = client.completions.create(**ask).choices[0].text
    texts = []
    threads = [threading.Thread(target=lambda i=i: texts.append(
        client.completions.create(**(ask if i % 3 == 0 else ask | {"prompt": f"Noise {i}"})).choices[0].text
        if i % 3 == 0 else client.completions.create(**(ask | {"prompt": f"Noise {i}"})) and alone))
        for i in range(15)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [alone] * 15


def test_key(program, nano):
    with Server(program, nano, key="sk-right", env={"MARTLET_API_KEY": "sk-other,sk-right"}) as api:
        make = lambda key: openai.OpenAI(base_url=api.url + "/v1", api_key=key, max_retries=0)
        assert make("sk-right").models.list().data
        assert make("sk-other").models.list().data
        with pytest.raises(openai.AuthenticationError):
            make("sk-wrong").models.list()


def test_the_default_model_knows_paris(real_server):
    client = openai.OpenAI(base_url=real_server.url + "/v1", api_key="unused", max_retries=0)
    answer = client.completions.create(model="default", prompt="The capital of France is", max_tokens=4, temperature=0)
    assert "Paris" in answer.choices[0].text
