#!/usr/bin/env python3
"""Greedy decoding of llama.cpp without and with a draft model, in turn, through the low-level API of llama-cpp-python: the
draft model proposes up to K tokens one by one, the target verifies them in one batch, what was wrong is taken out of both
caches. Prints one JSON object. The prompt is the chat template's text of the first of the benchmark's predictable
prompts, tokenized by the target; give --prompt for another."""
import argparse
import ctypes
import json
import time

import llama_cpp as ll

LIST = ("Repeat the following list exactly, one item a line, five times: apple, banana, cherry, date, elderberry, fig, "
        "grape.")


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("draft")
    p.add_argument("-n", type=int, default=96, help="generated tokens")
    p.add_argument("-k", default="3,5,8", help="draft lengths, comma separated")
    p.add_argument("--p-min", type=float, default=0.75, help="a draft stops at a token less sure than this")
    p.add_argument("-r", type=int, default=3, help="rounds")
    p.add_argument("-t", type=int, default=2, help="threads")
    p.add_argument("--flash", type=int, default=1, help="flash attention")
    p.add_argument("--prompt", default=LIST)
    return p.parse_args()


class Model:
    def __init__(self, path, args):
        self.model = ll.llama_model_load_from_file(path.encode(), ll.llama_model_default_params())
        params = ll.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = 2048, 512, 512
        params.n_threads = params.n_threads_batch = args.t
        if hasattr(params, "flash_attn_type"):
            params.flash_attn_type = args.flash
        self.context = ll.llama_init_from_model(self.model, params)
        self.vocabulary = ll.llama_model_get_vocab(self.model)
        self.size = ll.llama_vocab_n_tokens(self.vocabulary)
        self.batch = ll.llama_batch_init(512, 0, 1)
        self.clear()

    def clear(self):
        ll.llama_memory_clear(ll.llama_get_memory(self.context), True)
        self.tokens = []

    def run(self, tokens, outputs):
        """Appends `tokens`; the last `outputs` of them have logits."""
        self.batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            self.batch.token[i], self.batch.pos[i], self.batch.n_seq_id[i] = token, len(self.tokens) + i, 1
            self.batch.seq_id[i][0], self.batch.logits[i] = 0, i >= len(tokens) - outputs
        if ll.llama_decode(self.context, self.batch) != 0:
            raise SystemExit("llama_decode failed")
        self.tokens += tokens
        return [self.best(i) for i in range(len(tokens) - outputs, len(tokens))]

    def best(self, row):
        import numpy as np
        logits = np.ctypeslib.as_array(ll.llama_get_logits_ith(self.context, row), shape=(self.size,))
        top = int(logits.argmax())
        return top, float(1 / np.exp(logits - logits[top]).sum())

    def rewind(self, length):
        ll.llama_memory_seq_rm(ll.llama_get_memory(self.context), 0, length, -1)
        del self.tokens[length:]


def encode(model, text):
    text = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n".encode()
    out = (ctypes.c_int32 * 1024)()
    count = ll.llama_tokenize(model.vocabulary, text, len(text), out, 1024, False, True)
    return list(out[:count])


def plain(target, prompt, n):
    target.clear()
    token = target.run(prompt, 1)[0][0]
    out, begin = [token], time.perf_counter()
    while len(out) < n:
        token = target.run([token], 1)[0][0]
        out.append(token)
    return out, (n - 1) / (time.perf_counter() - begin)


def drafted(target, draft, prompt, n, k, p_min):
    target.clear(), draft.clear()
    out = [target.run(prompt, 1)[0][0]]
    draft.run(prompt, 1)
    proposed = accepted = 0
    begin = time.perf_counter()
    while len(out) < n:
        text = prompt + out
        same = 0
        while same < len(draft.tokens) and draft.tokens[same] == text[same]:
            same += 1
        draft.rewind(min(same, len(text) - 1))
        token, sure = draft.run(text[len(draft.tokens):], 1)[0]
        drafts = []
        while len(drafts) < min(k, n - len(out) - 1) and (sure >= p_min):
            drafts.append(token)
            if len(drafts) < k:
                token, sure = draft.run([token], 1)[0]
        answers = target.run([out[-1]] + drafts, len(drafts) + 1)
        right = 0
        while right < len(drafts) and answers[right][0] == drafts[right]:
            right += 1
        proposed, accepted = proposed + len(drafts), accepted + right
        out += [answer for answer, _ in answers[:right + 1]]
        target.rewind(len(prompt) + len(out) - 1)
    return out[:n], (len(out) - 1) / (time.perf_counter() - begin), proposed, accepted


def main():
    args = parse()
    quiet = ll.llama_log_callback(lambda level, text, data: None)
    ll.llama_log_set(quiet, ctypes.c_void_p())
    ll.llama_backend_init()
    target, draft = Model(args.model, args), Model(args.draft, args)
    prompt = encode(target, args.prompt)
    plain(target, prompt, 8)
    rows, alone = {int(k): [] for k in args.k.split(",")}, []
    same = True
    for _ in range(args.r):
        text, rate = plain(target, prompt, args.n)
        alone.append(rate)
        for k in rows:
            with_drafts, rate, proposed, accepted = drafted(target, draft, prompt, args.n, k, args.p_min)
            rows[k].append((rate, proposed, accepted))
            same = same and with_drafts == text
    middle = lambda values: sorted(values)[len(values) // 2]
    print(json.dumps({"without": middle(alone), "same_text": same,
                      "with": {k: {"tokens_per_s": middle([r for r, _, _ in v]),
                                   "accepted": sum(a for _, _, a in v) / max(1, sum(p for _, p, _ in v))}
                               for k, v in rows.items()}}))


if __name__ == "__main__":
    main()
