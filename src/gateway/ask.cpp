#include "gateway/ask.h"

namespace martlet::gateway {

// As in net/http_connection.cpp: every co_await stands alone in its statement (g++ 12).

namespace asio = boost::asio;

namespace {

constexpr size_t kAnswerBytes = 1u << 20;

}  // namespace

Verdict verdict_of(const Asked& asked) {
  AnswerFacts facts;
  if (asked.status != 200) inspect_answer(asked.body, facts);
  return verdict_of(asked.status, facts.error_code);
}

asio::awaitable<Asked> ask_upstream(Core& core, std::shared_ptr<net::HttpPeer> peer, const UpstreamConfig& config,
                                    std::string path, std::string body) {
  const UpstreamTimeouts& timeouts = config.timeouts;
  const auto call = std::make_shared<net::HttpCall>(
      *core.io, peer, net::HttpCallTimeouts{timeouts.connect, timeouts.first_byte, timeouts.between});
  net::HttpCallRequest request;
  request.method = body.empty() ? "GET" : "POST";
  request.target = config.base + path;
  request.body = body;
  request.fields = {{"accept", "*/*"}};
  if (!body.empty()) request.fields.push_back({"content-type", "application/json"});
  if (!config.api_key.empty()) request.fields.push_back({"authorization", "Bearer " + config.api_key});
  Asked out;
  Result<net::HttpAnswerHead> head = co_await call->send(std::move(request));
  if (!head) co_return out;
  out.status = head->status;
  Result<std::string> answer = co_await call->read_all(kAnswerBytes);
  if (!answer && answer.error().code != net::kAnswerTooLarge) co_return Asked();
  if (answer) out.body = std::move(*answer);
  co_return out;
}

}  // namespace martlet::gateway
