#pragma once

// What upstreams' answers mean, and how their failures look to a client. Texts of upstreams stay with us unless they
// are about the client's own request: they may hold paths, addresses or keys.

#include <string>
#include <string_view>

#include "base/error.h"
#include "gateway/body.h"
#include "net/http_message.h"

namespace martlet::gateway {

enum class Verdict {
  answer,   // 2xx
  pass_on,  // the request is at fault: any upstream would say so
  busy,     // try another: 429, 503
  refuse,   // our key, our model name, our path: 401, 403, 404 and the like
  fail,     // 5xx, a model that is damaged, or no sense at all
};

// `error_code`: of the error object in its body, where that was read and has one.
Verdict verdict_of(int status, std::string_view error_code = {});
Error verdict_error(Verdict verdict, int status);

// It came from a server that works: one that is full, that does not take our key or model, or whose answer is larger
// than ours may be.
bool says_nothing_of_health(const Error& error);

// 502 or 504 with the error's code; errors of other kinds as everywhere.
net::HttpResponse upstream_error_response(const Error& error);
// The upstream's own words about the client's mistake, when they are an error object as the API has it; ours otherwise.
net::HttpResponse refusal_response(int status, std::string_view body, const AnswerFacts& facts);
// The last event of a stream that broke.
std::string cut_event(const Error& error);

}  // namespace martlet::gateway
