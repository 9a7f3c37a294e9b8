#include "gateway/preparation.h"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "gateway/answer.h"
#include "gateway/ask.h"
#include "gateway/on_worker.h"
#include "gateway/questions.h"
#include "gateway/token_prompt.h"

namespace martlet::gateway {

namespace asio = boost::asio;
namespace json = boost::json;

namespace {

constexpr std::chrono::seconds kWatchInterval{5};
constexpr std::chrono::seconds kElection{3};  // how long a better upstream may take to become the one to compare with
constexpr int kSameFailures = 3;              // in a row at one question: it fails there each time

constexpr std::string_view kTokenize = "/tokenize", kApplyTemplate = "/apply-template";

bool is_optional(std::string_view path) {
  return path == kTokenize || path == kApplyTemplate;
}

// An answer with this status says what an upstream makes of a question, if only that it cannot be asked, as behind a
// proxy that lets some routes through. One that is not there, has no room, fails or does not take our key may say
// something else the next time.
bool says_something(std::string_view path, int status, Verdict verdict) {
  return verdict == Verdict::answer || verdict == Verdict::pass_on || status == 404 || status == 501 ||
         (is_optional(path) && verdict == Verdict::refuse);
}

// What became of a question.
enum class Fate {
  answered,
  unaskable,  // the upstream says as much: then others of its kind cannot be asked either
  given_up,   // it fails each time: the comparison goes on without its answer
  holds_up,   // the comparison cannot go on now
};

struct Heard {
  Fate fate = Fate::unaskable;
  Verdict verdict = Verdict::fail;  // on the last answer, or that there was none
  std::string why;                  // it was no good one
  json::object object;              // that it was answered with
};

class Preparation {
 public:
  Preparation(Core& core, size_t instance)
      : core_(core), instance_(instance), upstream_(core.upstream_of(instance)), peer_(core.peers[instance]) {}

  asio::awaitable<void> warm();
  asio::awaitable<void> compare();
  // Keeps what it says of its version, if it says anything.
  asio::awaitable<void> ask_version();
  // Of an upstream that gets token ids: whether it does with them as it should.
  asio::awaitable<void> try_ids();
  bool still_there() const { return peer_ == core_.peers[instance_] && !core_.closing; }

 private:
  // An empty body: GET. Answered is what has a 200 with an object.
  asio::awaitable<Heard> ask_text(const char* path, std::string text);
  asio::awaitable<Heard> ask(const char* path, json::object body) {
    return ask_text(path, body.empty() ? "" : json::serialize(body));
  }
  // The same, for an object with this member.
  asio::awaitable<Heard> ask_for(std::string_view member, const char* path, json::object body);
  // The answer to a prompt, asked for as this upstream is asked.
  struct Said {
    Heard heard;
    std::string text, finish, prompt_tokens;  // empty where it does not say
  };
  asio::awaitable<Said> generate(json::object body, bool chat, int tokens);
  asio::awaitable<Said> ask_chat(json::array messages, int tokens);
  asio::awaitable<Said> ask_bare();
  bool warmed(const Heard& heard, const std::string& what);
  bool can_chat() const;
  asio::awaitable<void> ask_tokens();
  asio::awaitable<void> ask_template();
  asio::awaitable<void> ask_chats();
  asio::awaitable<void> ask_completion();
  // Of a question of the comparison that has no good answer.
  Fate weigh(const std::string& path, int status, const std::string& why);
  // Keeps what was heard as the answers to these questions, by their names, or that they were given up. An answer that
  // is absent is left open. False: the next question of the kind is not to be asked.
  using Answers = std::vector<std::pair<std::string, std::optional<std::string>>>;
  bool keep(Fate fate, Answers answers);
  void conclude();

  Core& core_;
  const size_t instance_;
  Upstream& upstream_;
  const std::shared_ptr<net::HttpPeer> peer_;
  Fingerprint seen_;
  bool comparing_ = false;
  // A route with questions that were given up: why, and whether it is asked no more.
  struct Failing {
    std::string why;
    bool whole = false;
  };
  std::map<std::string, Failing> failing_;  // by path
  std::vector<std::string> given_up_;       // questions
  std::string stumbled_;                    // why the comparison cannot go on now; empty: it can
};

std::string text_at(const json::object& object, std::string_view pointer) {
  json::error_code ec;
  const json::value root(object);
  const json::value* found = root.find_pointer(pointer, ec);
  if (!found) return "";
  return found->is_string() ? std::string(found->as_string()) : json::serialize(*found);
}

std::optional<std::string> if_said(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

asio::awaitable<Heard> Preparation::ask_text(const char* path, std::string text) {
  Heard heard;
  const auto failing = failing_.find(path);
  if (failing != failing_.end() && failing->second.whole) {
    heard.fate = Fate::given_up;
    co_return heard;
  }
  Asked asked = co_await ask_upstream(core_, peer_, upstream_.config, path, text);
  // A server may fail at the same question each time, as llama-server does at a chat that its template refuses: then
  // that is all that it has to say.
  for (int failures = 1; comparing_ && asked.status == 500 && failures < kSameFailures; ++failures) {
    asked = co_await ask_upstream(core_, peer_, upstream_.config, path, text);
  }
  heard.verdict = verdict_of(asked);
  heard.why = asked.status == 0 ? "no answer" : "status " + std::to_string(asked.status);
  json::error_code ec;
  json::value value = asked.status == 200 ? json::parse(asked.body, ec) : json::value();
  if (!ec && value.is_object()) {
    heard.fate = Fate::answered;
    heard.object = std::move(value.get_object());
  } else if (comparing_ && !says_something(path, asked.status, heard.verdict)) {
    heard.fate = weigh(path, asked.status, heard.why);
  }
  co_return heard;
}

asio::awaitable<Heard> Preparation::ask_for(std::string_view member, const char* path, json::object body) {
  Heard heard = co_await ask(path, std::move(body));
  if (heard.fate == Fate::answered && !heard.object.contains(member)) heard.fate = Fate::unaskable;
  co_return heard;
}

Fate Preparation::weigh(const std::string& path, int status, const std::string& why) {
  const bool one = status == 500;  // another question may go well there
  if (!one && (!is_optional(path) || upstream_.optional_routes.hold_up())) {
    stumbled_ = path + ": " + why;
    return Fate::holds_up;
  }
  Failing& failing = failing_.try_emplace(path, Failing{why}).first->second;
  failing.whole = failing.whole || !one;
  return Fate::given_up;
}

bool Preparation::keep(Fate fate, Answers answers) {
  for (auto& [question, answer] : answers) {
    if (fate == Fate::answered && answer) seen_[question] = std::move(*answer);
    if (fate == Fate::given_up) given_up_.push_back(std::move(question));
  }
  return fate == Fate::answered || fate == Fate::given_up;
}

asio::awaitable<Preparation::Said> Preparation::generate(json::object body, bool chat, int tokens) {
  const UpstreamConfig& config = upstream_.config;
  const bool ids = upstream_.text != nullptr;
  body["model"] = json::value(config.model);
  body["max_tokens"] = tokens;
  body["temperature"] = 0;
  std::string text = json::serialize(body);
  Said said;
  if (ids) {
    auto make = [model = upstream_.text, text, chat, context = config.context] {
      return token_request(*model, text, chat, context);
    };
    Result<std::string> made = co_await on_worker(core_, std::move(make));
    if (!made) {
      said.heard.why = made.error().text;
      co_return said;
    }
    text = std::move(*made);
  }
  const bool as_chat = chat && !ids;
  const char* path = as_chat ? "/v1/chat/completions" : "/v1/completions";
  said.heard = co_await ask_text(path, std::move(text));
  if (said.heard.fate == Fate::answered) {
    said.text = text_at(said.heard.object, as_chat ? "/choices/0/message/content" : "/choices/0/text");
    said.finish = text_at(said.heard.object, "/choices/0/finish_reason");
    said.prompt_tokens = text_at(said.heard.object, "/usage/prompt_tokens");
  }
  co_return said;
}

asio::awaitable<Preparation::Said> Preparation::ask_chat(json::array messages, int tokens) {
  json::object body{{"messages", std::move(messages)}};
  Said said = co_await generate(std::move(body), true, tokens);
  co_return said;
}

asio::awaitable<Preparation::Said> Preparation::ask_bare() {
  json::object body{{"prompt", kBareText}};
  Said said = co_await generate(std::move(body), false, 1);
  co_return said;
}

// One token, and one of each shape: what is compiled at a first use is compiled now.
asio::awaitable<void> Preparation::warm() {
  json::array first = chats()[0];
  Said said = co_await ask_chat(std::move(first), 1);
  warmed(said.heard, "it");
  for (const int64_t bucket : upstream_.config.warm_buckets) {
    // Three quarters of it: inside the bucket even where the estimate is a little off. "a " is a token to most.
    std::string prompt;
    for (int64_t i = 0; i < bucket * 3 / 4; ++i) prompt += "a ";
    json::array messages;
    messages.push_back(json::object{{"role", "user"}, {"content", std::move(prompt)}});
    said = co_await ask_chat(std::move(messages), 1);
    if (!still_there()) co_return;
    int64_t& warm = core_.dispatcher.instances()[instance_].warm_buckets;
    warm = warmed(said.heard, "bucket " + std::to_string(bucket)) ? warm | bucket : warm & ~bucket;
  }
}

bool Preparation::warmed(const Heard& heard, const std::string& what) {
  const size_t upstream = core_.dispatcher.instances()[instance_].upstream;
  const bool answered = heard.fate == Fate::answered;
  if (!answered && still_there()) core_.note(upstream, {what, " could not be warmed (", heard.why, ")"});
  return answered;
}

// The first chat of all, as ids: the model's file has a template, and the upstream the room.
bool Preparation::can_chat() const {
  const auto counted = upstream_.file_facts.find("template/tokens/0");
  return counted != upstream_.file_facts.end() && std::stoll(counted->second) < upstream_.config.context;
}

// They are taken as they are, all of them and no more, by the vocabulary that made them.
asio::awaitable<void> Preparation::try_ids() {
  const Fingerprint& file = upstream_.file_facts;
  const bool chat = can_chat();
  Said said;
  if (chat) {
    json::array messages = chats()[0];
    said = co_await ask_chat(std::move(messages), 1);
  } else {
    said = co_await ask_bare();
  }
  // Only what the request itself was answered with says something of ids: one that is not there or busy, that fails, or
  // does not know our key, model or path (yet) may do well with them.
  const bool has_said = said.heard.verdict == Verdict::answer || said.heard.verdict == Verdict::pass_on;
  const bool answered = said.heard.fate == Fate::answered;
  const char* wrong = answered || !has_said ? "" : "takes no token ids";
  const auto sent = file.find(chat ? "template/tokens/0" : "bos/tokens");
  if (answered && sent != file.end() && !said.prompt_tokens.empty() && said.prompt_tokens != sent->second) {
    wrong = "counts other token ids than it was sent";
  }
  co_await ask_tokens();
  for (const auto& [question, answer] : seen_) {
    const auto expected = file.find(question);
    if (expected != file.end() && expected->second != answer) wrong = "has another vocabulary than its file";
  }
  const bool takes = *wrong == 0;
  if ((takes && !has_said) || !still_there()) co_return;
  const size_t index = core_.dispatcher.instances()[instance_].upstream;
  const bool took = upstream_.takes_ids.value_or(true);
  if (took != takes) core_.note(index, {takes ? "takes token ids now" : wrong, takes ? "" : ": gets no request"});
  upstream_.takes_ids = takes;
  core_.place(index);
  core_.settle();
}

// Where servers say what they are; for people, who read a difference beside it.
asio::awaitable<void> Preparation::ask_version() {
  constexpr std::pair<const char*, const char*> kPlaces[] = {
      {"/props", "/build_info"}, {"/version", "/version"}, {"/api/version", "/version"}};
  for (const auto& [path, member] : kPlaces) {
    json::object nothing;
    const Heard heard = co_await ask(path, std::move(nothing));
    std::string version = text_at(heard.object, member);
    if (version.empty() || version.size() > 128) continue;
    upstream_.version = std::move(version);
    co_return;
  }
}

asio::awaitable<void> Preparation::ask_tokens() {
  for (size_t i = 0; i < std::size(kTexts); ++i) {
    json::object body{{"content", kTexts[i]}};
    const Heard heard = co_await ask_for("tokens", kTokenize.data(), std::move(body));
    if (!keep(heard.fate, {{"vocabulary/" + std::to_string(i), text_at(heard.object, "/tokens")}})) co_return;
  }
}

// The date of the day as a template may write it: such a text is another tomorrow. No question has a year in it.
bool is_dated(const std::string& text) {
  const std::time_t now = std::time(nullptr);
  std::tm today{};
  gmtime_r(&now, &today);
  return text.find(std::to_string(1900 + today.tm_year)) != text.npos;
}

asio::awaitable<void> Preparation::ask_template() {
  const std::vector<json::array> all = chats();
  for (size_t i = 0; i < all.size(); ++i) {
    json::object body{{"messages", all[i]}};
    const Heard heard = co_await ask_for("prompt", kApplyTemplate.data(), std::move(body));
    std::optional<std::string> text = text_at(heard.object, "/prompt");
    if (is_dated(*text)) text.reset();
    if (!keep(heard.fate, {{"template/text/" + std::to_string(i), std::move(text)}})) co_return;
  }
}

asio::awaitable<void> Preparation::ask_chats() {
  constexpr int kTokens = 24;
  const std::vector<json::array> all = chats();
  for (size_t i = 0; i < all.size(); ++i) {
    json::array messages = all[i];
    const Said said = co_await ask_chat(std::move(messages), i == 0 ? kTokens : 1);
    const std::string number = std::to_string(i);
    std::string words = i == 0 ? said.finish + "|" + said.text : said.text;
    if (!keep(said.heard.fate, {{"template/tokens/" + number, if_said(said.prompt_tokens)},
                                {(i == 0 ? "stop/" : "greedy/") + number, std::move(words)}})) {
      co_return;
    }
  }
}

asio::awaitable<void> Preparation::ask_completion() {
  const Said said = co_await ask_bare();
  keep(said.heard.fate, {{"bos/tokens", if_said(said.prompt_tokens)}});
}

asio::awaitable<void> Preparation::compare() {
  co_await ask_version();
  seen_.clear();
  comparing_ = true;
  co_await ask_tokens();
  // Of one that gets token ids neither its template nor what it puts before a text plays a part.
  const bool text = !upstream_.text;
  if (stumbled_.empty() && text) co_await ask_template();
  if (stumbled_.empty()) co_await ask_chats();
  if (stumbled_.empty() && text) co_await ask_completion();
  comparing_ = false;
  if (still_there()) conclude();
}

// What was found before holds until all has been asked.
void Preparation::conclude() {
  const size_t upstream = core_.dispatcher.instances()[instance_].upstream;
  const bool news = std::exchange(upstream_.unfinished, stumbled_) != stumbled_;
  if (!stumbled_.empty()) {
    if (news) core_.note(upstream, {"cannot be compared now (", stumbled_, "): asked again"});
    return;
  }
  upstream_.optional_routes.finished();
  for (const auto& [path, how] : failing_) {
    const char* fails = how.whole ? " fails" : " fails at a question";
    core_.note(upstream, {path, fails, " each time (", how.why, "): compared without it"});
  }
  if (upstream_.fingerprint) carry_over(seen_, *upstream_.fingerprint, given_up_);
  // What it could not be asked its file may say.
  seen_.insert(upstream_.file_facts.begin(), upstream_.file_facts.end());
  core_.saw(upstream, std::move(seen_));
}

void serve(Core& core, size_t index, const Preparation& preparation, bool fresh) {
  if (!preparation.still_there()) return;
  Dispatcher::Instance& instance = core.dispatcher.instances()[index];
  if (fresh) core.note(instance.upstream, {"ready"});
  instance.preparing = false;
  core.settle();
}

// What is prepared: `fresh`, an instance that has served nobody yet; `cold`, one that may have been started anew.
struct Occasion {
  bool fresh, cold;
};

asio::awaitable<void> run(Core& core, size_t index, std::shared_ptr<net::HttpPeer> peer, Occasion occasion) {
  Preparation preparation(core, index);
  if (peer != core.peers[index]) {
    if (core.being_prepared[index] == peer) core.being_prepared[index] = nullptr;
    co_return;
  }
  const size_t upstream = core.dispatcher.instances()[index].upstream;
  const UpstreamConfig& config = core.upstreams[upstream].config;
  const bool ours = config.supervised() || config.kind == UpstreamKind::martlet;
  const bool warms = ours || config.standby || !config.warm_buckets.empty();
  // Of those that are ours it is known whether they were started anew.
  if (warms && (occasion.fresh || (occasion.cold && !ours))) co_await preparation.warm();
  if (core.upstreams[upstream].text) co_await preparation.try_ids();
  // One that was compared before serves meanwhile by what was found then: its clients wait for no second comparison.
  const bool compared = core.upstreams[upstream].fingerprint.has_value();
  if (compared) serve(core, index, preparation, occasion.fresh);
  if (core.needs_comparison(upstream) && preparation.still_there()) co_await preparation.compare();
  if (core.being_prepared[index] == peer) core.being_prepared[index] = nullptr;
  if (!compared) serve(core, index, preparation, occasion.fresh);
  if (!core.needs_comparison(upstream) && preparation.still_there()) co_await preparation.ask_version();
}

void begin(Core& core, size_t instance, bool cold) {
  // Slow to start, it may seem to go and come meanwhile.
  if (core.being_prepared[instance] && core.being_prepared[instance] == core.peers[instance]) return;
  const Occasion occasion{core.dispatcher.instances()[instance].preparing, cold};
  core.being_prepared[instance] = core.peers[instance];
  core.run_until_done(
      [&core, instance, peer = core.peers[instance], occasion] { return run(core, instance, peer, occasion); });
}

struct Instances {
  std::optional<size_t> idle;   // one that can be asked now
  bool being_prepared = false;  // any of them
};

Instances instances_of(const Core& core, size_t upstream) {
  Instances out;
  const auto& instances = core.dispatcher.instances();
  for (size_t i = 0; i < instances.size(); ++i) {
    if (instances[i].upstream != upstream) continue;
    const bool up = instances[i].breaker.is_up() && core.peers[i];
    if (core.being_prepared[i]) {
      out.being_prepared = true;
    } else if (up && !out.idle) {
      out.idle = i;
    }
  }
  return out;
}

// Compares again what could not be asked everything, and what has another version now.
asio::awaitable<void> watch_parity(Core& core, size_t upstream) {
  asio::steady_timer timer(*core.io);
  Upstream& watched = core.upstreams[upstream];
  while (!core.closing) {
    timer.expires_after(kWatchInterval);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    const Instances instances = instances_of(core, upstream);
    const std::optional<size_t> instance = instances.idle;
    const bool waits = instance && !watched.unfinished.empty() && !instances.being_prepared;
    if (waits && watched.optional_routes.due()) begin(core, *instance, false);
    // One that said nothing of its version when it was compared is not asked again.
    const std::string before = watched.version;
    if (before.empty() || !instance || !watched.unfinished.empty()) continue;
    Preparation preparation(core, *instance);
    co_await preparation.ask_version();
    if (watched.version == before || !preparation.still_there()) continue;
    core.note(upstream, {"has another version: compared again"});
    prepare(core, *instance);
  }
}

asio::awaitable<void> watch_ids(Core& core, size_t upstream) {
  asio::steady_timer timer(*core.io);
  while (!core.closing) {
    timer.expires_after(kWatchInterval);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    const std::optional<size_t> instance = instances_of(core, upstream).idle;
    if (!instance || core.upstreams[upstream].takes_ids.value_or(false)) continue;
    Preparation preparation(core, *instance);
    co_await preparation.try_ids();
  }
}

asio::awaitable<void> elect_later(Core& core, size_t model) {
  asio::steady_timer timer(*core.io, kElection);
  co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  core.elect(model, true);
}

}  // namespace

void prepare(Core& core, size_t instance) {
  begin(core, instance, true);
}

void watch_upstreams(Core& core) {
  for (size_t u = 0; u < core.upstreams.size(); ++u) {
    if (core.needs_comparison(u)) core.run_until_done([&core, u] { return watch_parity(core, u); });
    if (core.upstreams[u].text) core.run_until_done([&core, u] { return watch_ids(core, u); });
  }
}

// A fingerprint is there: whoever could be compared with it now is.
void Core::saw(size_t upstream, Fingerprint fingerprint) {
  const size_t model = dispatcher.traits(upstream).model;
  const bool first = std::none_of(upstreams.begin(), upstreams.end(), [&](const Upstream& other) {
    return other.fingerprint && other.config.serves == upstreams[upstream].config.serves;
  });
  upstreams[upstream].fingerprint = std::move(fingerprint);
  if (first) run_until_done([this, model] { return elect_later(*this, model); });
  elect(model, false);
}

}  // namespace martlet::gateway
