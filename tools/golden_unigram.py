#!/usr/bin/env python3
"""Makes the unigram vocabularies of tests/golden/text and the ids that SentencePiece gives for texts, in the layout of the
reference vectors: texts in NAME.inp, split by a separator line, ids in NAME.out, a line a text.

    pip install sentencepiece protobuf gguf; python3 tools/golden_unigram.py   (from the root of the project)
"""
import glob
import os
import random
import tempfile

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

SEPARATOR = "\n__ggml_vocab_test__\n"
HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/golden/text")
RULES = {"ﬁ": "fi", "ﬂ": "fl", "\u00a0": " ", "\t": " ", "\n": " ", "\r": " ", "\u3000": " ", "e\u0301": "\u00e9", "①": "1",
         "…": "...", "\u200b": "", "½": "1/2"}
RULES.update({chr(0xFF21 + i): chr(65 + i) for i in range(26)})
TEXTS = ["Hello world", " Hello  world ", "", "  ", "a", "The capital of France is Paris.", "ﬁne ﬂow…", "ＦＵＬＬ width",
         "x\u200by", "½ cup", "naïve résumé", "e\u0301", "日本語 text 日本", "1234567 tokens/s", "\ttab\nnew  line\r\n",
         "🚀 emoji 🦙🦙", "don't WON'T can't", "\u00a0nbsp\u3000wide", "foo_bar(baz) -> qux;", "a" * 40, "   spaces around   "]


def train(corpus, folder, **options):
    hexadecimal = lambda text: " ".join("%X" % ord(c) for c in text)
    rules = os.path.join(folder, "rules.tsv")
    with open(rules, "w") as out:
        out.writelines(f"{hexadecimal(a)}\t{hexadecimal(b)}\n" for a, b in RULES.items())
    prefix = os.path.join(folder, "model")
    sentencepiece.SentencePieceTrainer.train(input=corpus, model_prefix=prefix, vocab_size=700, model_type="unigram",
                                             normalization_rule_tsv=rules, minloglevel=2, **options)
    model = sentencepiece_model_pb2.ModelProto()
    with open(prefix + ".model", "rb") as file:
        model.ParseFromString(file.read())
    return model


def write_gguf(model, path):
    out = gguf.GGUFWriter(path, "t5")
    out.add_tokenizer_model("t5")
    out.add_token_list([piece.piece for piece in model.pieces])
    out.add_token_scores([piece.score for piece in model.pieces])
    out.add_token_types([piece.type for piece in model.pieces])
    out.add_add_space_prefix(model.normalizer_spec.add_dummy_prefix)
    out.add_remove_extra_whitespaces(model.normalizer_spec.remove_extra_whitespaces)
    out.add_precompiled_charsmap(model.normalizer_spec.precompiled_charsmap)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.close()


def main():
    corpus = sorted(glob.glob("docs/*.md") + glob.glob("*.md"))
    chooser = random.Random(7)
    words = " ".join(open(path).read() for path in corpus).split(" ")
    texts = list(TEXTS)
    for _ in range(80):
        start = chooser.randrange(len(words) - 30)
        text = list(" ".join(words[start:start + chooser.randrange(2, 25)]))
        for _ in range(3):
            text.insert(chooser.randrange(len(text) + 1), chooser.choice(sorted(RULES) + ["字", "  ", "\x01", "👨‍👩‍👧"]))
        texts.append("".join(text))
    for name, options in {"unigram": {}, "unigram-bytes": {"byte_fallback": True, "remove_extra_whitespaces": False}}.items():
        with tempfile.TemporaryDirectory() as folder:
            model = train(corpus, folder, **options)
            processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
        write_gguf(model, f"{HERE}/{name}.gguf")
        with open(f"{HERE}/{name}.inp", "w", newline="") as out:
            out.write("".join(text + SEPARATOR for text in texts))
        with open(f"{HERE}/{name}.out", "w") as out:
            out.writelines(" ".join(map(str, processor.encode(text))) + "\n" for text in texts)


main()
