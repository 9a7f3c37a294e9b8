#include "gateway/preparation.h"

#include <algorithm>
#include <optional>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "gateway/questions.h"

namespace martlet::gateway {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr size_t kAnswerBytes = 1u << 20;
constexpr std::chrono::seconds kElection{3};  // how long a better upstream may take to become the one to compare with

class Preparation {
 public:
  Preparation(Core& core, size_t instance)
      : core_(core), instance_(instance), upstream_(core.upstream_of(instance)), peer_(core.peers[instance]) {}

  asio::awaitable<void> warm();
  asio::awaitable<void> compare();
  bool still_there() const { return peer_ == core_.peers[instance_] && !core_.closing; }

 private:
  // The object that a 200 answers with. An empty body: GET.
  asio::awaitable<std::optional<json::object>> ask(const char* path, json::object body);
  asio::awaitable<void> ask_version();
  asio::awaitable<void> ask_tokens();
  asio::awaitable<void> ask_template();
  asio::awaitable<void> ask_chats();
  asio::awaitable<void> ask_completion();

  Core& core_;
  const size_t instance_;
  Upstream& upstream_;
  const std::shared_ptr<net::HttpPeer> peer_;
  Fingerprint seen_;
};

std::string text_at(const json::object& object, std::string_view pointer) {
  json::error_code ec;
  const json::value root(object);
  const json::value* found = root.find_pointer(pointer, ec);
  if (!found) return "";
  return found->is_string() ? std::string(found->as_string()) : json::serialize(*found);
}

asio::awaitable<std::optional<json::object>> Preparation::ask(const char* path, json::object body) {
  const UpstreamConfig& config = upstream_.config;
  const auto call = std::make_shared<net::HttpCall>(
      *core_.io, peer_,
      net::HttpCallTimeouts{config.timeouts.connect, config.timeouts.first_byte, config.timeouts.between});
  const std::string text = body.empty() ? "" : json::serialize(body);
  net::HttpCallRequest request;
  request.method = body.empty() ? "GET" : "POST";
  request.target = config.base + path;
  request.body = text;
  request.fields = {{"accept", "application/json"}};
  if (!body.empty()) request.fields.push_back({"content-type", "application/json"});
  if (!config.api_key.empty()) request.fields.push_back({"authorization", "Bearer " + config.api_key});
  Result<net::HttpAnswerHead> head = co_await call->send(std::move(request));
  if (!head) co_return std::nullopt;
  const bool good = head->status == 200;
  Result<std::string> answer = co_await call->read_all(kAnswerBytes);
  if (!good || !answer) co_return std::nullopt;
  json::error_code ec;
  json::value value = json::parse(*answer, ec);
  if (ec || !value.is_object()) co_return std::nullopt;
  co_return std::move(value.get_object());
}

// One token, and one of each shape: what is compiled at a first use is compiled now.
asio::awaitable<void> Preparation::warm() {
  json::object first{{"model", upstream_.config.model}, {"messages", chats()[0]}, {"max_tokens", 1}};
  co_await ask("/v1/chat/completions", std::move(first));
  for (const int64_t bucket : upstream_.config.warm_buckets) {
    // Three quarters of it: inside the bucket even where the estimate is a little off. "a " is a token to most.
    std::string prompt;
    for (int64_t i = 0; i < bucket * 3 / 4; ++i) prompt += "a ";
    json::array messages;
    messages.push_back(json::object{{"role", "user"}, {"content", std::move(prompt)}});
    json::object body{{"model", upstream_.config.model}, {"messages", std::move(messages)}, {"max_tokens", 1}};
    co_await ask("/v1/chat/completions", std::move(body));
  }
}

// Where servers say what they are; for people, who read a difference beside it.
asio::awaitable<void> Preparation::ask_version() {
  constexpr std::pair<const char*, const char*> kPlaces[] = {
      {"/props", "/build_info"}, {"/version", "/version"}, {"/api/version", "/version"}};
  for (const auto& [path, member] : kPlaces) {
    json::object nothing;
    std::optional<json::object> answer = co_await ask(path, std::move(nothing));
    if (!answer) continue;
    std::string version = text_at(*answer, member);
    if (version.empty() || version.size() > 128) continue;
    upstream_.version = std::move(version);
    co_return;
  }
}

asio::awaitable<void> Preparation::ask_tokens() {
  for (size_t i = 0; i < std::size(kTexts); ++i) {
    json::object body{{"content", kTexts[i]}};
    std::optional<json::object> answer = co_await ask("/tokenize", std::move(body));
    if (!answer || !answer->contains("tokens")) co_return;
    seen_["vocabulary/" + std::to_string(i)] = text_at(*answer, "/tokens");
  }
}

asio::awaitable<void> Preparation::ask_template() {
  const std::vector<json::array> all = chats();
  for (size_t i = 0; i < all.size(); ++i) {
    json::object body{{"messages", all[i]}};
    std::optional<json::object> answer = co_await ask("/apply-template", std::move(body));
    if (!answer || !answer->contains("prompt")) co_return;
    seen_["template/text/" + std::to_string(i)] = text_at(*answer, "/prompt");
  }
}

asio::awaitable<void> Preparation::ask_chats() {
  constexpr int kTokens = 24;
  const std::vector<json::array> all = chats();
  for (size_t i = 0; i < all.size(); ++i) {
    const int tokens = i == 0 ? kTokens : 1;
    json::object body{
        {"model", upstream_.config.model}, {"messages", all[i]}, {"max_tokens", tokens}, {"temperature", 0}};
    std::optional<json::object> answer = co_await ask("/v1/chat/completions", std::move(body));
    if (!answer) co_return;
    const std::string number = std::to_string(i), text = text_at(*answer, "/choices/0/message/content");
    const std::string counted = text_at(*answer, "/usage/prompt_tokens");
    if (!counted.empty()) seen_["template/tokens/" + number] = counted;
    if (i == 0) seen_["stop/" + number] = text_at(*answer, "/choices/0/finish_reason") + "|" + text;
    if (i > 0) seen_["greedy/" + number] = text;
  }
}

asio::awaitable<void> Preparation::ask_completion() {
  json::object body{{"model", upstream_.config.model}, {"prompt", kBareText}, {"max_tokens", 1}, {"temperature", 0}};
  std::optional<json::object> answer = co_await ask("/v1/completions", std::move(body));
  if (!answer) co_return;
  const std::string counted = text_at(*answer, "/usage/prompt_tokens");
  if (!counted.empty()) seen_["bos/tokens"] = counted;
}

asio::awaitable<void> Preparation::compare() {
  co_await ask_version();
  co_await ask_tokens();
  co_await ask_template();
  co_await ask_chats();
  co_await ask_completion();
  // What it could not be asked its file may say.
  seen_.insert(upstream_.file_facts.begin(), upstream_.file_facts.end());
  if (still_there()) core_.saw(core_.dispatcher.instances()[instance_].upstream, std::move(seen_));
}

void serve(Core& core, size_t index, const Preparation& preparation, bool fresh) {
  if (!preparation.still_there()) return;
  Dispatcher::Instance& instance = core.dispatcher.instances()[index];
  if (fresh) core.note(instance.upstream, "ready");
  instance.preparing = false;
  core.settle();
}

asio::awaitable<void> run(Core& core, size_t index, bool fresh) {
  const std::shared_ptr<net::HttpPeer> peer = core.peers[index];
  core.being_prepared[index] = peer;
  Preparation preparation(core, index);
  const size_t upstream = core.dispatcher.instances()[index].upstream;
  const UpstreamConfig& config = core.upstreams[upstream].config;
  const bool ours = config.supervised() || config.kind == UpstreamKind::martlet;
  if (fresh && (ours || !config.warm_buckets.empty())) co_await preparation.warm();
  // One that was compared before serves meanwhile by what was found then: its clients wait for no second comparison.
  const bool compared = core.upstreams[upstream].fingerprint.has_value();
  if (compared) serve(core, index, preparation, fresh);
  if (core.needs_comparison(upstream) && preparation.still_there()) co_await preparation.compare();
  if (core.being_prepared[index] == peer) core.being_prepared[index] = nullptr;
  if (!compared) serve(core, index, preparation, fresh);
}

asio::awaitable<void> elect_later(Core& core, size_t model) {
  asio::steady_timer timer(*core.io, kElection);
  co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  core.elect(model, true);
}

}  // namespace

void prepare(Core& core, size_t instance) {
  // Slow to start, it may seem to go and come meanwhile.
  if (core.being_prepared[instance] && core.being_prepared[instance] == core.peers[instance]) return;
  asio::co_spawn(*core.io, run(core, instance, core.dispatcher.instances()[instance].preparing), asio::detached);
}

// A fingerprint is there: whoever could be compared with it now is.
void Core::saw(size_t upstream, Fingerprint fingerprint) {
  const size_t model = dispatcher.traits(upstream).model;
  const bool first = std::none_of(upstreams.begin(), upstreams.end(), [&](const Upstream& other) {
    return other.fingerprint && other.config.serves == upstreams[upstream].config.serves;
  });
  upstreams[upstream].fingerprint = std::move(fingerprint);
  if (first) asio::co_spawn(*io, elect_later(*this, model), asio::detached);
  elect(model, false);
}

}  // namespace martlet::gateway
