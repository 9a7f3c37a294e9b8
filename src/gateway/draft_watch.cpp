#include "gateway/draft_watch.h"

#include <optional>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "gateway/answer.h"
#include "gateway/ask.h"
#include "gateway/draft_counters.h"

namespace martlet::gateway {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kInterval{1};
constexpr std::chrono::seconds kPause{30};  // of one that counts none

// What was read of one process.
struct Reading {
  std::shared_ptr<net::HttpPeer> peer;
  std::optional<DraftCounters> last;
  Time again{};  // not before
};

// Its metrics have no drafts, or it has no metrics. Whatever else is no count says nothing: the next one may be one.
bool counts_none(const Asked& asked) {
  const Verdict verdict = verdict_of(asked);
  if (verdict == Verdict::answer) return !asked.body.empty();
  return verdict == Verdict::refuse || verdict == Verdict::pass_on;
}

void learn(Core& core, size_t index, const DraftCounters& before, const DraftCounters& now) {
  Upstream& upstream = core.upstreams[index];
  const auto drafted = static_cast<int64_t>(now.drafted - before.drafted);
  if (drafted <= 0) return;
  upstream.drafts.saw(drafted, static_cast<int64_t>(now.accepted - before.accepted), core.now());
  core.metrics.acceptance(index, upstream.drafts.acceptance(), upstream.drafts.drafts(core.now()));
}

asio::awaitable<void> watch(Core& core, size_t instance) {
  const size_t index = core.dispatcher.instances()[instance].upstream;
  Upstream& upstream = core.upstreams[index];
  asio::steady_timer timer(*core.io);
  Reading reading;
  while (!core.closing && !upstream.answers_count_drafts) {
    timer.expires_after(kInterval);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    // A process that was started anew counts from nothing.
    if (reading.peer != core.peers[instance]) reading = {core.peers[instance], std::nullopt, {}};
    if (!reading.peer || core.now() < reading.again || !core.dispatcher.instances()[instance].breaker.is_up()) continue;
    Asked asked = co_await ask_upstream(core, reading.peer, upstream.config, "/metrics", "");
    if (upstream.answers_count_drafts) break;  // counted what the metrics would count again
    if (asked.status == 0 || reading.peer != core.peers[instance]) continue;
    const std::optional<DraftCounters> now = asked.status == 200 ? read_draft_counters(asked.body) : std::nullopt;
    // Until it counts (again) the pace of its streams has to tell.
    core.metrics_count_drafts[instance] = now.has_value();
    if (!now) {
      reading.last.reset();
      if (counts_none(asked)) reading.again = core.now() + kPause;
      continue;
    }
    if (reading.last && now->drafted >= reading.last->drafted) learn(core, index, *reading.last, *now);
    reading.last = now;
  }
}

}  // namespace

void watch_drafts(Core& core) {
  for (size_t i = 0; i < core.peers.size(); ++i) {
    if (core.upstream_of(i).config.drafts) core.run_until_done([&core, i] { return watch(core, i); });
  }
}

}  // namespace martlet::gateway
