#include "bench/chat_stream.h"

#include <algorithm>

#include "bench/json_access.h"

namespace martlet::bench {
namespace {

constexpr size_t kLongestAnswer = 1u << 20;  // bytes: far beyond what the contract's tokens can be

// Stands for itself in JSON.
bool is_plain(unsigned char c) {
  return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

}  // namespace

// The events of a stream differ in their text alone, mostly. One that has the same bytes around plain text as an event
// that was parsed needs no parsing.
std::optional<std::string_view> ChatStream::plain_text(std::string_view data) const {
  if (head_.empty() || data.size() < head_.size() + tail_.size()) return std::nullopt;
  if (!data.starts_with(head_) || !data.ends_with(tail_)) return std::nullopt;
  const std::string_view text = data.substr(head_.size(), data.size() - head_.size() - tail_.size());
  return std::all_of(text.begin(), text.end(), is_plain) ? std::optional(text) : std::nullopt;
}

void ChatStream::learn(std::string_view data, std::string_view text) {
  const std::string quoted = '"' + std::string(text) + '"';
  const size_t at = data.find(quoted);
  if (at == data.npos || data.rfind(quoted) != at) return;  // written otherwise, or in two places
  head_ = data.substr(0, at + 1);
  tail_ = data.substr(at + 1 + text.size());
}

void ChatStream::add_piece(std::string_view text, double arrived) {
  if (text.empty()) return;
  m_.last_token = arrived;
  if (pieces_++ == 0) m_.first_token = arrived;
  m_.text += text;
  if (m_.text.size() > kLongestAnswer) m_.error = "the answer does not end";
}

void ChatStream::take(std::string_view data, double arrived) {
  if (const auto text = plain_text(data)) return add_piece(*text, arrived);
  if (data == "[DONE]")
    done_ = true;
  else
    parse(data, arrived);
}

void ChatStream::parse(std::string_view data, double arrived) {
  json::error_code code;
  const json::value event = json::parse(json::string_view(data.data(), data.size()), code);
  if (code) return void(m_.error = "an event is no JSON");
  if (find(&event, "error")) return void(m_.error = "the stream ended with an error");
  const json::value* usage = find(&event, "usage");
  const bool counts = usage && usage->is_object();
  if (counts) {
    counted_ = true;
    m_.prompt_tokens = integer(find(usage, "prompt_tokens"));
    m_.output_tokens = integer(find(usage, "completion_tokens"));
    m_.cached_tokens = integer(find(find(usage, "prompt_tokens_details"), "cached_tokens"));
  }
  const json::value* choices = find(&event, "choices");
  if (!choices || !choices->is_array() || choices->get_array().empty()) return;
  const json::value* choice = &choices->get_array()[0];
  const std::string_view reason = string_of(find(choice, "finish_reason"));
  const std::string_view text = string_of(find(find(choice, "delta"), "content"));
  if (!reason.empty()) m_.finish_reason = reason;
  if (!counts && reason.empty() && !text.empty()) learn(data, text);
  add_piece(text, arrived);
}

void ChatStream::finish() {
  if (!counted_) m_.output_tokens = pieces_;
  if (m_.error.empty() && pieces_ == 0) m_.error = "no text";
}

}  // namespace martlet::bench
