#pragma once

// The model that a benchmark's engines answer from, as this process reads it: to judge their answers and to run it
// without a server.

#include <memory>
#include <string>

#include "bench/engine_target.h"
#include "bench/judge.h"
#include "chat/chat_template.h"
#include "cli/backends.h"
#include "file/model_file.h"
#include "text/tokenizer.h"

namespace martlet::cli {

struct BenchModel {
  std::string path;
  std::shared_ptr<const ModelFile> file;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;

  Result<std::vector<Token>> encode(const std::string& prompt) const;
  Result<bench::Encoded> encode(const std::string& prompt, const std::string& answer) const;
};

// Errors: those of the model, and of its chat template, which chats need.
Result<BenchModel> open_bench_model(const std::string& model);

// An engine on that backend, which is made with as many rows as it needs, with room for `streams` sequences of
// `context` tokens. Errors: those of make_backend and make_plan.
Result<std::unique_ptr<Engine>> answering_engine(const BenchModel& model, int context, int streams,
                                                 BackendOptions backend);

// An engine that computes with weights and activations as they are and keeps its cache in float32: several times as
// slow.
Result<std::unique_ptr<Engine>> judging_engine(const BenchModel& model, int context, int threads);

bench::LocalModel local_model(const BenchModel& model, std::unique_ptr<Engine> engine);

}  // namespace martlet::cli
