// What a gateway reads: its configuration, tokenizers of folders, and bodies that pass through or become token ids. A
// member that is written into a body must be read back, and everything else must be left as it was; of what becomes ids
// no text may be left.

#include <algorithm>
#include <cstdlib>

#include <boost/json/parse.hpp>

#include "../unit/text/small_vocabulary.h"
#include "chat/model_folder.h"
#include "gateway/body.h"
#include "gateway/config.h"
#include "gateway/token_prompt.h"

namespace {

namespace json = boost::json;

martlet::gateway::TextModel make_model() {
  martlet::SmallVocabulary vocabulary;
  vocabulary.add_letters();
  vocabulary.add("<e>", martlet::TokenKind::control);
  const auto chat = martlet::ChatTemplate::parse("{% for m in messages %}{{ m.content }}<e>{% endfor %}");
  return {martlet::make_tokenizer(vocabulary.source("gpt2", "gpt-2")).value(), chat.value(), nullptr};
}

bool holds_text(const json::value& value) {
  const json::array* list = value.if_array();
  return list ? std::any_of(list->begin(), list->end(), holds_text) : !value.is_int64() && !value.is_uint64();
}

void make_ids(std::string_view body, bool chat) {
  static const martlet::gateway::TextModel model = make_model();
  const auto made = martlet::gateway::token_request(model, body, chat, 4096);
  if (!made) return;
  json::parse_options options;
  options.max_depth = 64;  // that of a body
  const json::object request = json::parse(*made, {}, options).as_object();
  const json::value* prompt = request.if_contains("prompt");
  const bool is_chat = chat && (!prompt || request.contains("messages"));
  if (is_chat || (prompt && holds_text(*prompt))) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace martlet::gateway;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto config = parse_config(text, "f"); !config && config.error().where.empty()) std::abort();
  if (const auto vocabulary = martlet::parse_tokenizer_json(text); !vocabulary && vocabulary.error().where.empty()) {
    std::abort();
  }
  make_ids(text, true);
  make_ids(text, false);
  if (!inspect_request(text)) return 0;
  json::object before = json::parse(text).as_object();
  json::object after = json::parse(with_member(text, "model", "\"m\"")).as_object();
  if (after["model"] != "m") std::abort();
  before.erase("model");
  after.erase("model");
  if (before != after) std::abort();
  return 0;
}
