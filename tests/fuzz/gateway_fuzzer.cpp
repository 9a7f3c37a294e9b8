// What a gateway reads: its configuration, tokenizers of folders, and bodies that pass through. A member that is
// written into a body must be read back, and everything else must be left as it was.

#include <cstdlib>

#include <boost/json/parse.hpp>

#include "chat/model_folder.h"
#include "gateway/body.h"
#include "gateway/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace json = boost::json;
  using namespace martlet::gateway;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto config = parse_config(text, "f"); !config && config.error().where.empty()) std::abort();
  if (const auto vocabulary = martlet::parse_tokenizer_json(text); !vocabulary && vocabulary.error().where.empty()) {
    std::abort();
  }
  if (!inspect_request(text)) return 0;
  json::object before = json::parse(text).as_object();
  json::object after = json::parse(with_member(text, "model", "\"m\"")).as_object();
  if (after["model"] != "m") std::abort();
  before.erase("model");
  after.erase("model");
  if (before != after) std::abort();
  return 0;
}
