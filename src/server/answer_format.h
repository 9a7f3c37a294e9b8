#pragma once

// The JSON of answers, as OpenAI's clients read it: one format for each endpoint.

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <boost/json/value.hpp>

#include "server/api_request.h"
#include "server/choice_text.h"

namespace martlet::server {

struct AnswerUsage {
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  PrefixMiss miss = PrefixMiss::none;  // of the first prompt
  DraftCounts drafts;                  // of all choices
};

// What stays the same over all objects of one answer.
struct AnswerHeader {
  std::string id;
  int64_t created = 0;
  std::string model;
  bool logprobs = false;
  bool stream_usage = false;  // chunks carry "usage": null until the last one
};

class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;
  // The first chunk of a choice, sent before any token; empty when the format has none.
  virtual std::string opening(const AnswerHeader& header, int choice) const = 0;
  // `finish_reason`: null while the choice goes on.
  virtual std::string chunk(const AnswerHeader& header, int choice, const Delta& delta,
                            const char* finish_reason) const = 0;
  virtual std::string usage_chunk(const AnswerHeader& header, const AnswerUsage& usage) const = 0;
  struct Choice {
    Delta delta;
    std::string finish_reason;
  };
  virtual std::string whole(const AnswerHeader& header, const std::vector<Choice>& choices,
                            const AnswerUsage& usage) const = 0;
};

std::unique_ptr<AnswerFormat> answer_format(Endpoint endpoint, std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace martlet::server
