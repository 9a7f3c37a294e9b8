#include "gateway/draft_watch.h"

#include <optional>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "gateway/ask.h"
#include "gateway/draft_counters.h"

namespace martlet::gateway {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kInterval{1};

// What was read of one process.
struct Reading {
  std::shared_ptr<net::HttpPeer> peer;
  std::optional<DraftCounters> last;
  bool counts = true;  // false: its metrics have no drafts, or it has none
};

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
  while (!core.closing && upstream.drafts_told != DraftsTold::answers) {
    timer.expires_after(kInterval);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    // A process that was started anew counts from nothing.
    if (reading.peer != core.peers[instance]) reading = {core.peers[instance], std::nullopt, true};
    if (!reading.peer || !reading.counts || !core.dispatcher.instances()[instance].breaker.is_up()) continue;
    Asked asked = co_await ask_upstream(core, reading.peer, upstream.config, "/metrics", "");
    if (asked.status == 0 || reading.peer != core.peers[instance]) continue;
    const std::optional<DraftCounters> now = asked.status == 200 ? read_draft_counters(asked.body) : std::nullopt;
    reading.counts = now.has_value();
    if (!now || upstream.drafts_told == DraftsTold::answers) continue;
    upstream.drafts_told = DraftsTold::metrics;
    if (reading.last && now->drafted >= reading.last->drafted) learn(core, index, *reading.last, *now);
    reading.last = now;
  }
}

}  // namespace

void watch_drafts(Core& core) {
  for (size_t i = 0; i < core.peers.size(); ++i) {
    if (core.upstream_of(i).config.drafts) asio::co_spawn(*core.io, watch(core, i), asio::detached);
  }
}

}  // namespace martlet::gateway
