#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <memory>

#include "base/utf8.h"
#include "cli/command.h"
#include "hub/resolve.h"
#include "text/tokenizer.h"

namespace martlet::cli {
namespace {

struct Flags {
  std::string model, text = "-";
  bool ids = false, json = false, special = false;
};

Result<std::string> read_stdin() {
  std::string text;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, stdin)) text.append(buffer, count);
  if (std::ferror(stdin)) return Error{ErrorKind::io, "io_error", "the text could not be read", "stdin"};
  return text;
}

// In quotes, with what would disturb a terminal written as escapes.
std::string quoted(std::string_view bytes) {
  std::string out = "\"";
  for (size_t i = 0; i < bytes.size();) {
    const utf8::Decoded d = utf8::decode(bytes, i);
    const bool plain = d.valid && d.codepoint >= 0x20 && !(d.codepoint >= 0x7f && d.codepoint < 0xa0);
    if (plain && (d.codepoint == '"' || d.codepoint == '\\')) out += '\\';
    if (plain)
      out += bytes.substr(i, d.length);
    else if (d.codepoint == '\n')
      out += "\\n";
    else if (d.codepoint == '\t')
      out += "\\t";
    else {
      for (uint32_t k = 0; k < d.length; ++k) {
        char escape[5];
        std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned>(static_cast<uint8_t>(bytes[i + k])));
        out += escape;
      }
    }
    i += d.length;
  }
  return out + '"';
}

std::string as_ids(std::span<const Token> tokens) {
  std::string out;
  for (const Token token : tokens) out += (out.empty() ? "" : ",") + std::to_string(token);
  return out + "\n";
}

std::string as_lines(const Tokenizer& tokenizer, std::span<const Token> tokens) {
  std::string out;
  for (const Token token : tokens) {
    char id[16];
    std::snprintf(id, sizeof id, "%7d  ", token);
    out += id + quoted(tokenizer.bytes(token, true)) + "\n";
  }
  return out;
}

std::string as_json(const Tokenizer& tokenizer, std::span<const Token> tokens) {
  boost::json::array list;
  for (const Token token : tokens) {
    list.push_back({{"id", token},
                    {"piece", utf8::replace_invalid(tokenizer.piece(token))},
                    {"text", utf8::replace_invalid(tokenizer.bytes(token, true))}});
  }
  return boost::json::serialize(boost::json::object{{"count", tokens.size()}, {"tokens", std::move(list)}}) + "\n";
}

Status tokenize(const Flags& flags) {
  MARTLET_ASSIGN(const std::string path, resolve_model(flags.model));
  MARTLET_ASSIGN(const std::shared_ptr<const ModelFile> file, ModelFile::open(path));
  MARTLET_ASSIGN(const std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::create(*file));
  std::string text = flags.text;
  if (text == "-") {
    MARTLET_ASSIGN(text, read_stdin());
  }
  const Span whole{0, text.size()};
  std::vector<Token> tokens;
  tokenizer->encode(text, flags.special ? std::span(&whole, 1) : std::span<const Span>(), tokens);
  const std::string out = flags.ids    ? as_ids(tokens)
                          : flags.json ? as_json(*tokenizer, tokens)
                                       : as_lines(*tokenizer, tokens);
  std::fwrite(out.data(), 1, out.size(), stdout);
  return {};
}

}  // namespace

Action define_tokenize(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  app.add_option("model", flags->model,
                 "A .gguf file (one with a vocabulary alone will do), an alias, or hf:owner/repository")
      ->required();
  app.add_option("text", flags->text, "The text; standard input when it is - or absent");
  CLI::Option* ids = app.add_flag("--ids", flags->ids, "Print the ids alone, on one line, separated by commas");
  app.add_flag("--json", flags->json, "Print one JSON object, for programs")->excludes(ids);
  app.add_flag("--special", flags->special, "Recognise control tokens such as <|im_start|> in the text");
  return [flags] { return tokenize(*flags); };
}

}  // namespace martlet::cli
