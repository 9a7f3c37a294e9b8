#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>

#include <boost/json/parse.hpp>

#include "base/mapped_file.h"
#include "chat/prompt.h"
#include "cli/command.h"
#include "hub/resolve.h"

namespace martlet::cli {
namespace {

namespace json = boost::json;
using Time = std::chrono::system_clock::time_point;

struct Flags {
  std::string source, input, now;
};

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// YYYY-MM-DD, or YYYY-MM-DDTHH:MM[:SS][Z], in UTC.
std::optional<Time> parse_time(const std::string& text) {
  for (const char* format : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"}) {
    std::tm fields{};
    const char* end = strptime(text.c_str(), format, &fields);
    if (!end || (*end != '\0' && std::string_view(end) != "Z")) continue;
    return std::chrono::system_clock::from_time_t(timegm(&fields));
  }
  return std::nullopt;
}

Result<json::object> read_inputs(const std::string& path) {
  MARTLET_ASSIGN(const std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  json::error_code code;
  json::value value =
      json::parse(json::string_view(text_of(*file).data(), text_of(*file).size()), code, {}, {.max_depth = 64});
  if (code || !value.is_object()) {
    return Error{ErrorKind::usage, "invalid_json", "the input must be one JSON object with messages", path};
  }
  // The reference vectors keep a case's inputs beside its output.
  json::object object = std::move(value.get_object());
  json::value* inputs = object.if_contains("inputs");
  if (!inputs) return object;
  if (!inputs->is_object()) return Error{ErrorKind::usage, "invalid_json", "\"inputs\" must be an object", path};
  return json::object(inputs->get_object());
}

void add_token(json::object& inputs, const char* name, const Tokenizer& tokenizer, Token token) {
  const std::string_view piece = token >= 0 ? tokenizer.piece(token) : std::string_view();
  inputs.emplace(name, json::string_view(piece.data(), piece.size()));
}

// The model's template; bos_token and eos_token are added to `inputs` where they are missing.
Result<std::shared_ptr<const ChatTemplate>> model_template(const std::string& model, json::object& inputs) {
  MARTLET_ASSIGN(const std::string path, resolve_model(model));
  MARTLET_ASSIGN(const std::shared_ptr<const ModelFile> file, ModelFile::open(path));
  MARTLET_ASSIGN(const std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::create(*file));
  add_token(inputs, "bos_token", *tokenizer, tokenizer->bos());
  add_token(inputs, "eos_token", *tokenizer, tokenizer->eos());
  const json::value* tools = inputs.if_contains("tools");
  auto loaded = load_chat_template(*file, tools && tools->is_array() && !tools->get_array().empty());
  if (!loaded) loaded.error().kind = ErrorKind::model;
  return loaded;
}

Result<std::shared_ptr<const ChatTemplate>> file_template(const std::string& path) {
  MARTLET_ASSIGN(const std::shared_ptr<const MappedFile> file, MappedFile::open(path));
  return ChatTemplate::parse(text_of(*file));
}

Status render(const Flags& flags) {
  std::optional<Time> now = std::chrono::system_clock::now();
  if (!flags.now.empty()) now = parse_time(flags.now);
  if (!now) return Error{ErrorKind::usage, "usage", "a time looks like 2026-07-04T12:00:00", "--now"};
  MARTLET_ASSIGN(json::object inputs, read_inputs(flags.input));
  MARTLET_ASSIGN(const std::shared_ptr<const ChatTemplate> chat_template,
                 flags.source.ends_with(".jinja") ? file_template(flags.source) : model_template(flags.source, inputs));
  MARTLET_ASSIGN(const Rendered rendered, chat_template->render(inputs, *now));
  std::fwrite(rendered.text.data(), 1, rendered.text.size(), stdout);
  return {};
}

}  // namespace

Action define_template_(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("model", flags->source, "A model (.gguf file, alias, or hf:owner/repository), or a template (.jinja)")
      ->required();
  app.add_option("--input", flags->input, "A JSON file: {\"messages\": [...], \"tools\": [...], ...}")->required();
  app.add_option("--now", flags->now, "The time that the template sees, UTC, as 2026-07-04T12:00:00 (default: now)");
  return [flags] { return render(*flags); };
}

}  // namespace martlet::cli
