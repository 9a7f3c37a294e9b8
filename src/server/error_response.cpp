#include "server/error_response.h"

#include "base/utf8.h"

namespace martlet::server {
namespace {

constexpr size_t kLongestField = 100;  // bytes: the caller chooses the names of unknown fields

struct CodeStatus {
  const char* code;
  int status;
};

// Codes whose status is not that of their kind.
constexpr CodeStatus kCodes[] = {{"model_not_found", 404}, {"queue_full", 429}, {"tenant_limit", 429}};

// Whatever is wrong with a model's file, the API knows one code for it; /v1/models and the log have the reader's own.
std::string public_code(const Error& error) {
  return error.kind == ErrorKind::model ? "model_invalid" : error.code;
}

// Texts that an error of this kind may show: template_error carries what a template raised, which may quote a message.
std::string public_text(const Error& error) {
  if (error.code == "template_error") return "the model's chat template refuses these messages";
  if (error.kind == ErrorKind::internal) return "the server made an error; its log says more";
  return error.text;
}

// `where` names a field of the body for request errors only; a template's place in its own source is no field.
std::string public_param(const Error& error) {
  if (error.kind != ErrorKind::request) return {};
  return error.code.starts_with("template_") ? "messages" : error.where;
}

}  // namespace

int http_status(const Error& error) {
  for (const CodeStatus& row : kCodes) {
    if (error.code == row.code) return row.status;
  }
  switch (error.kind) {
    case ErrorKind::usage:
    case ErrorKind::model:
    case ErrorKind::request:
      return 400;
    case ErrorKind::memory:
    case ErrorKind::unavailable:
      return 503;
    case ErrorKind::io:
    case ErrorKind::network:
    case ErrorKind::internal:
      return 500;
  }
  return 500;
}

std::string error_body(const Error& error) {
  return net::error_json(http_status(error), public_code(error), public_text(error), public_param(error));
}

net::HttpResponse error_response(const Error& error) {
  net::HttpResponse out;
  out.status = http_status(error);
  out.body = error_body(error);
  if (out.status == 429 || out.status == 503) out.fields.push_back({"retry-after", "1"});
  return out;
}

Error bad_field(std::string code, std::string text, std::string_view field) {
  return {ErrorKind::request, std::move(code), std::move(text), std::string(utf8::head(field, kLongestField))};
}

}  // namespace martlet::server
