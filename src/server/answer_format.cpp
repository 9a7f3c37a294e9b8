#include "server/answer_format.h"

#include <boost/json/serialize.hpp>

#include "server/logprobs_json.h"

namespace martlet::server {

namespace json = boost::json;

namespace {

// Of the places that were drafted at all.
json::array by_position(const DraftCounts& drafts, const std::array<int64_t, kMaxDraft>& tokens) {
  json::array out;
  for (size_t j = 0; j < tokens.size() && drafts.drafted[j] > 0; ++j) out.push_back(tokens[j]);
  return out;
}

json::object usage_json(const AnswerUsage& usage) {
  const DraftCounts& drafts = usage.drafts;
  json::object details{{"cached_tokens", usage.cached_tokens}};
  if (usage.miss != PrefixMiss::none) details["cache_miss"] = name(usage.miss);
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.output_tokens},
          {"total_tokens", usage.prompt_tokens + usage.output_tokens},
          {"prompt_tokens_details", std::move(details)},
          {"completion_tokens_details",
           {{"drafted_tokens", drafts.drafted_tokens()},
            {"accepted_tokens", drafts.accepted_tokens()},
            {"drafted_by_position", by_position(drafts, drafts.drafted)},
            {"accepted_by_position", by_position(drafts, drafts.accepted)},
            {"draft_price_seconds", drafts.price_seconds},
            {"drafting_off_seconds", drafts.off_seconds}}}};
}

json::object envelope(const AnswerHeader& header, const char* object, json::array choices) {
  return {{"id", header.id},
          {"object", object},
          {"created", header.created},
          {"model", header.model},
          {"choices", std::move(choices)}};
}

json::value reason(const char* finish_reason) {
  return finish_reason ? json::value(finish_reason) : json::value();
}

// What both formats share; they differ in names and in what a choice looks like.
class Format : public AnswerFormat {
 public:
  Format(std::shared_ptr<const Tokenizer> tokenizer, const char* chunk_object, const char* whole_object)
      : tokenizer_(std::move(tokenizer)), chunk_object_(chunk_object), whole_object_(whole_object) {}

  std::string opening(const AnswerHeader&, int) const override { return {}; }

  std::string chunk(const AnswerHeader& header, int choice, const Delta& delta,
                    const char* finish_reason) const override {
    json::value scores = delta.tokens.empty() ? json::value() : logprobs(header, delta);
    return stream_object(header, choice, chunk_choice(delta), std::move(scores), finish_reason);
  }

  std::string usage_chunk(const AnswerHeader& header, const AnswerUsage& usage) const override {
    json::object out = envelope(header, chunk_object_, {});
    out["usage"] = usage_json(usage);
    return json::serialize(out);
  }

  std::string whole(const AnswerHeader& header, const std::vector<Choice>& choices,
                    const AnswerUsage& usage) const override {
    json::array list;
    for (const Choice& choice : choices) {
      json::object out = whole_choice(choice.delta);
      out["index"] = list.size();
      out["logprobs"] = logprobs(header, choice.delta);
      out["finish_reason"] = choice.finish_reason;
      list.emplace_back(std::move(out));
    }
    json::object out = envelope(header, whole_object_, std::move(list));
    out["usage"] = usage_json(usage);
    return json::serialize(out);
  }

 protected:
  virtual json::object chunk_choice(const Delta& delta) const = 0;
  virtual json::object whole_choice(const Delta& delta) const = 0;
  virtual json::value logprobs_of(const std::vector<ScoredToken>& tokens) const = 0;

  std::string stream_object(const AnswerHeader& header, int choice, json::object inner, json::value logprobs,
                            const char* finish_reason) const {
    inner["index"] = choice;
    inner["logprobs"] = std::move(logprobs);
    inner["finish_reason"] = reason(finish_reason);
    json::object out = envelope(header, chunk_object_, {std::move(inner)});
    if (header.stream_usage) out["usage"] = nullptr;
    return json::serialize(out);
  }

  json::value logprobs(const AnswerHeader& header, const Delta& delta) const {
    return header.logprobs ? logprobs_of(delta.tokens) : json::value();
  }

  std::shared_ptr<const Tokenizer> tokenizer_;

 private:
  const char *chunk_object_, *whole_object_;
};

class ChatFormat final : public Format {
 public:
  explicit ChatFormat(std::shared_ptr<const Tokenizer> tokenizer)
      : Format(std::move(tokenizer), "chat.completion.chunk", "chat.completion") {}

  std::string opening(const AnswerHeader& header, int choice) const override {
    return stream_object(header, choice, {{"delta", {{"role", "assistant"}, {"content", ""}}}}, nullptr, nullptr);
  }

 protected:
  json::object chunk_choice(const Delta& delta) const override {
    json::object inner;
    if (!delta.empty()) inner["content"] = delta.text;
    return {{"delta", std::move(inner)}};
  }
  json::object whole_choice(const Delta& delta) const override {
    return {{"message", {{"role", "assistant"}, {"content", delta.text}, {"refusal", nullptr}}}};
  }
  json::value logprobs_of(const std::vector<ScoredToken>& tokens) const override {
    return chat_logprobs(*tokenizer_, tokens);
  }
};

class TextFormat final : public Format {
 public:
  explicit TextFormat(std::shared_ptr<const Tokenizer> tokenizer)
      : Format(std::move(tokenizer), "text_completion", "text_completion") {}

 protected:
  json::object chunk_choice(const Delta& delta) const override { return {{"text", delta.text}}; }
  json::object whole_choice(const Delta& delta) const override { return {{"text", delta.text}}; }
  json::value logprobs_of(const std::vector<ScoredToken>& tokens) const override {
    return text_logprobs(*tokenizer_, tokens);
  }
};

}  // namespace

std::unique_ptr<AnswerFormat> answer_format(Endpoint endpoint, std::shared_ptr<const Tokenizer> tokenizer) {
  if (endpoint == Endpoint::chat) return std::make_unique<ChatFormat>(std::move(tokenizer));
  return std::make_unique<TextFormat>(std::move(tokenizer));
}

}  // namespace martlet::server
