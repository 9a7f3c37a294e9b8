#include "server/api_request.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <boost/json/serialize.hpp>

#include "server/duration.h"
#include "server/field.h"
#include "server/messages.h"

namespace martlet::server {

namespace json = boost::json;

namespace {

constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr unsigned kChat = static_cast<unsigned>(Endpoint::chat), kText = static_cast<unsigned>(Endpoint::text);
constexpr unsigned kBoth = kChat | kText;

using Request = ApiRequest;

template <class Member>
auto sampling(Member member) {
  return [member](Request & r) -> auto& {
    return r.sampling.*member;
  };
}

// Two names of one field: both may be there as long as they agree.
Status read_max_tokens(json::value& value, const std::string& name, Request& out) {
  MARTLET_ASSIGN(const int64_t count, read_integer(value, name, 0, kMaxInt));
  if (out.max_tokens && *out.max_tokens != count) {
    return bad_field("invalid_value", "max_tokens and max_completion_tokens differ: give one of them", name);
  }
  out.max_tokens = static_cast<int32_t>(count);
  return {};
}

Status read_seed(json::value& value, const std::string& name, Request& out) {
  if (value.is_uint64()) return out.sampling.seed = value.get_uint64(), Status();
  MARTLET_ASSIGN(const int64_t seed,
                 read_integer(value, name, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()));
  out.sampling.seed = static_cast<uint64_t>(seed);
  return {};
}

Status read_stop(json::value& value, const std::string& name, Request& out) {
  json::array list = value.is_array() ? value.get_array() : json::array{value};
  if (list.size() > kMaxStops) {
    return bad_field("invalid_value", fmt::format("must hold at most {} strings", kMaxStops), name);
  }
  for (const json::value& stop : list) {
    if (!stop.is_string() || stop.get_string().empty() || stop.get_string().size() > kMaxStopBytes) {
      return bad_field("invalid_value", fmt::format("must be a string of 1 to {} bytes, or several", kMaxStopBytes),
                       name);
    }
    out.stop.emplace_back(stop.get_string());
  }
  return {};
}

Status read_stop_tokens(json::value& value, const std::string& name, Request& out) {
  MARTLET_ASSIGN(out.stop_tokens, read_tokens(value, name, kMaxInt));
  if (out.stop_tokens.size() <= kMaxStops) return {};
  return bad_field("invalid_value", fmt::format("must hold at most {} token ids", kMaxStops), name);
}

// {"token id": bias from -100 to 100}
Status read_logit_bias(json::value& value, const std::string& name, Request& out) {
  if (!value.is_object()) return bad_field("invalid_value", "must be an object of token ids and numbers", name);
  for (const auto& member : value.get_object()) {
    const std::string_view key(member.key());
    Token token = -1;
    const auto [end, ec] = std::from_chars(key.data(), key.data() + key.size(), token);
    // One spelling for each id: with zeros in front, one token could come any number of times.
    const bool padded = key.size() > 1 && key.front() == '0';
    if (ec != std::errc() || end != key.data() + key.size() || token < 0 || padded) {
      return bad_field("invalid_token_id", "its keys must be token ids of the model's vocabulary", name);
    }
    MARTLET_ASSIGN(const double bias, read_number(member.value(), name, -100, 100));
    out.sampling.logit_bias.emplace_back(token, static_cast<float>(bias));
  }
  return {};
}

Status read_stream_options(json::value& value, const std::string& name, Request& out) {
  if (!value.is_object()) return bad_field("invalid_value", "must be an object", name);
  for (const auto& member : value.get_object()) {
    const std::string inner = name + "." + std::string(member.key());
    if (member.key() == "include_obfuscation" && member.value() == false) continue;  // there is none
    if (member.key() != "include_usage") return unsupported(inner);
    MARTLET_ASSIGN(out.include_usage, read_boolean(member.value(), inner));
  }
  return {};
}

// What the server itself gives to the template is not the caller's to replace.
constexpr std::string_view kTemplateInputs[] = {
    "messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token", "continue_final_message"};

Status read_template_kwargs(json::value& value, const std::string& name, Request& out) {
  if (!value.is_object()) return bad_field("invalid_value", "must be an object", name);
  for (const auto& member : value.get_object()) {
    const std::string_view key(member.key());
    const bool ours =
        std::find(std::begin(kTemplateInputs), std::end(kTemplateInputs), key) != std::end(kTemplateInputs);
    if (ours || key.starts_with('_')) return unsupported(name + "." + std::string(key));
  }
  out.template_kwargs = std::move(value.get_object());
  return {};
}

Status read_messages(json::value& value, const std::string& name, Request& out) {
  MARTLET_ASSIGN(out.messages, parse_messages(std::move(value), name));
  return {};
}

// Chat asks for log-probabilities with a boolean, text completions with a count.
Status read_logprob_count(json::value& value, const std::string& name, Request& out) {
  MARTLET_ASSIGN(const int64_t count, read_integer(value, name, 0, kMaxTopLogprobs));
  out.logprobs = true;
  out.top_logprobs = static_cast<int32_t>(count);
  return {};
}

Status read_speculation(json::value& value, const std::string& name, Request& out) {
  MARTLET_ASSIGN(const std::string text, read_string(value, name));
  const Result<Speculation> rule = parse_speculation(text);
  if (!rule) return bad_field("invalid_value", rule.error().text, name);
  out.speculation = *rule;
  return {};
}

Status read_keep_alive(json::value& value, const std::string& name, Request& out) {
  out.keep_alive = parse_duration(value.is_string() ? std::string_view(value.get_string()) : json::serialize(value));
  if (!out.keep_alive)
    return bad_field("invalid_value", "must be seconds, or a time like \"5m\"; negative: until the memory is wanted",
                     name);
  return {};
}

Status ignore_metadata(json::value& value, const std::string& name, Request&) {
  MARTLET_TRY(read_string(value, name));
  return {};
}

const std::vector<Field<Request>>& fields() {
  using S = SamplingParameters;
  static const std::vector<Field<Request>> table = {
      {"model", kBoth, string(&Request::model)},
      {"messages", kChat, read_messages},
      {"prompt", kText, raw(&Request::prompt)},
      {"max_tokens", kBoth, read_max_tokens},
      {"max_completion_tokens", kChat, read_max_tokens},
      {"n", kBoth, integer<Request>(1, kMaxChoices, &Request::n)},
      {"priority", kBoth, integer<Request>(-kMaxPriority, kMaxPriority, &Request::priority)},
      {"stream", kBoth, boolean(&Request::stream)},
      {"stream_options", kBoth, read_stream_options},
      {"stop", kBoth, read_stop},
      {"stop_token_ids", kBoth, read_stop_tokens},
      {"ignore_eos", kBoth, boolean(&Request::ignore_eos)},
      {"temperature", kBoth, number<Request>(0, 2, sampling(&S::temperature))},
      {"top_p", kBoth, number<Request>(0, 1, sampling(&S::top_p))},
      {"top_k", kBoth, integer<Request>(0, kMaxInt, sampling(&S::top_k))},
      {"min_p", kBoth, number<Request>(0, 1, sampling(&S::min_p))},
      {"typical_p", kBoth, number<Request>(0, 1, sampling(&S::typical_p))},
      {"repetition_penalty", kBoth, number<Request>(0.01, 10, sampling(&S::repetition_penalty))},
      {"presence_penalty", kBoth, number<Request>(-2, 2, sampling(&S::presence_penalty))},
      {"frequency_penalty", kBoth, number<Request>(-2, 2, sampling(&S::frequency_penalty))},
      {"logit_bias", kBoth, read_logit_bias},
      {"seed", kBoth, read_seed},
      {"logprobs", kChat, boolean(&Request::logprobs)},
      {"logprobs", kText, read_logprob_count},
      {"top_logprobs", kChat, integer<Request>(0, kMaxTopLogprobs, &Request::top_logprobs)},
      {"echo", kText, boolean(&Request::echo)},
      {"speculation", kBoth, read_speculation},
      {"chat_template_kwargs", kChat, read_template_kwargs},
      {"keep_alive", kBoth, read_keep_alive},
      {"user", kBoth, ignore_metadata},
      // What is not built yet, or not ours: the value that asks for nothing is harmless, others are refused.
      {"best_of", kText, only<Request>(1)},
      {"suffix", kText, only<Request>("")},
      {"tools", kChat, only<Request>(json::array())},
      {"tool_choice", kChat, only<Request>("none")},
      {"functions", kChat, only<Request>(json::array())},
      {"function_call", kChat, only<Request>("none")},
      {"parallel_tool_calls", kChat, only<Request>(false)},
      {"response_format", kChat, only<Request>(json::object{{"type", "text"}})},
      {"modalities", kChat, only<Request>(json::array{"text"})},
      {"store", kChat, only<Request>(false)},
      {"audio", kChat, only<Request>(nullptr)},
      {"prediction", kChat, only<Request>(nullptr)},
      {"metadata", kChat, only<Request>(nullptr)},
      {"service_tier", kChat, only<Request>(nullptr)},
      {"reasoning_effort", kChat, only<Request>(nullptr)},
      {"verbosity", kChat, only<Request>(nullptr)},
      {"web_search_options", kChat, only<Request>(nullptr)},
  };
  return table;
}

// Rules between fields.
Status check(const Request& r, const json::object& body, Endpoint endpoint) {
  const auto given = [&](const char* name) { return body.contains(name) && !body.at(name).is_null(); };
  if (r.max_tokens == 0 && !r.echo) {
    const char* name = given("max_tokens") ? "max_tokens" : "max_completion_tokens";
    return bad_field("invalid_value", "must be at least 1", name);
  }
  if (given("stream_options") && !r.stream) {
    return bad_field("invalid_value", "only a stream has stream options", "stream_options");
  }
  if (r.top_logprobs && !r.logprobs) return bad_field("invalid_value", "needs logprobs: true", "top_logprobs");
  if (endpoint == Endpoint::chat && r.messages.empty()) {
    return bad_field("invalid_value", "must hold at least one message", "messages");
  }
  if (endpoint == Endpoint::text && r.prompt.is_null()) {
    return bad_field("empty_prompt", "must not be empty", "prompt");
  }
  return {};
}

}  // namespace

Result<ApiRequest> parse_api_request(json::object body, Endpoint endpoint, const ApiPolicy& policy) {
  if (body.contains("chat_template_kwargs") && !policy.template_kwargs) return unsupported("chat_template_kwargs");
  ApiRequest out;
  MARTLET_TRY(read_fields(body, fields(), static_cast<unsigned>(endpoint), out));
  MARTLET_TRY(check(out, body, endpoint));
  return out;
}

}  // namespace martlet::server
