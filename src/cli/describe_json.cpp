#include <cmath>

#include "base/utf8.h"
#include "cli/describe.h"

namespace martlet::cli {
namespace {

namespace json = boost::json;

json::value text_value(std::string_view text) {
  return json::value(utf8::replace_invalid(text));
}
json::value number_value(double number) {
  return std::isfinite(number) ? json::value(number) : json::value(nullptr);
}

json::value element(const NumberArray& array, size_t i) {
  switch (array.type) {
    case NumberArray::Type::f32:
    case NumberArray::Type::f64:
      return number_value(array.number(i));
    case NumberArray::Type::boolean:
      return array.integer(i) != 0;
    default:
      return array.integer(i);
  }
}

struct ToJson {
  json::value operator()(std::string_view text) const { return text_value(text); }
  json::value operator()(double number) const { return number_value(number); }
  json::value operator()(const NumberArray& array) const {
    json::array out;
    out.reserve(array.size);
    for (size_t i = 0; i < array.size; ++i) out.push_back(element(array, i));
    return out;
  }
  json::value operator()(const StringArray& array) const {
    json::array out;
    out.reserve(array.size());
    for (const std::string_view text : array) out.push_back(text_value(text));
    return out;
  }
  json::value operator()(auto scalar) const { return scalar; }
};

json::value token_value(const Tokenizer& tokenizer, Token token) {
  if (token < 0) return nullptr;
  return {{"id", token}, {"piece", text_value(tokenizer.piece(token))}};
}

// The keys are there for every model; null where it does not say.
void add_vocabulary(const ModelSummary& model, json::object& out) {
  out["vocabulary_size"] = model.vocabulary_size;
  out["tokenizer"] = text_value(model.tokenizer);
  out["pre_tokenizer"] = text_value(model.pre_tokenizer);
  out["tokenizer_error"] = nullptr;
  out["bos_token"] = nullptr;
  out["eos_token"] = nullptr;
  json::array stops;
  if (model.vocabulary) {
    const Tokenizer& tokenizer = **model.vocabulary;
    out["bos_token"] = token_value(tokenizer, tokenizer.bos());
    out["eos_token"] = token_value(tokenizer, tokenizer.eos());
    for (const Token token : tokenizer.stop_tokens()) stops.push_back(token_value(tokenizer, token));
  } else {
    out["tokenizer_error"] = model.vocabulary.error().code;
  }
  out["stop_tokens"] = std::move(stops);
}

}  // namespace

json::object to_json(const ModelSummary& model) {
  json::object out;
  out["name"] = text_value(model.name);
  json::array files;
  for (const std::string& file : model.files) files.push_back(text_value(file));
  out["files"] = std::move(files);
  out["bytes"] = model.bytes;
  out["architecture"] = text_value(model.architecture);
  out["parameters"] = model.parameters;
  json::object hyper_parameters;
  for (const HyperParameter& row : model.hyper_parameters) hyper_parameters[row.key] = row.value;
  out["hyper_parameters"] = std::move(hyper_parameters);
  out["context_length"] = model.context_length ? json::value(*model.context_length) : json::value(nullptr);
  json::array formats;
  for (const FormatUse& use : model.formats) {
    const FormatInfo& format = info(use.format);
    formats.push_back(
        {{"format", format.name}, {"tensors", use.tensors}, {"bytes", use.bytes}, {"computes", format.computes}});
  }
  out["formats"] = std::move(formats);
  add_vocabulary(model, out);
  out["chat_template"] = model.chat_template ? text_value(*model.chat_template) : json::value(nullptr);
  return out;
}

json::object metadata_to_json(const ModelFile& file) {
  json::object out;
  for (const auto& [key, value] : file.metadata()) out[utf8::replace_invalid(key)] = std::visit(ToJson(), value);
  return out;
}

}  // namespace martlet::cli
