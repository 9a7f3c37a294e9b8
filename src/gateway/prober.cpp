#include "gateway/prober.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace martlet::gateway {

namespace asio = boost::asio;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr std::chrono::milliseconds kPatience{900};
constexpr size_t kAnswerBytes = 1u << 20;

struct Finding {
  Probe result = Probe::ok;
  std::string reason;  // of one that is not ok
};

asio::awaitable<Finding> probe(Core& core, std::shared_ptr<net::HttpPeer> peer, const UpstreamConfig& config) {
  const auto call =
      std::make_shared<net::HttpCall>(*core.io, peer, net::HttpCallTimeouts{kPatience, kPatience, kPatience});
  net::HttpCallRequest request;
  request.target = config.base + config.health;
  if (!config.api_key.empty()) request.fields.push_back({"authorization", "Bearer " + config.api_key});
  Result<net::HttpAnswerHead> head = co_await call->send(std::move(request));
  if (!head) {
    co_return Finding{head.error().code == "upstream_timeout" ? Probe::silent : Probe::refused, head.error().text};
  }
  const bool good = head->status == 200;
  // Read to its end, so that the connection serves the next one too.
  Result<std::string> rest = co_await call->read_all(kAnswerBytes);
  if (!good) {
    co_return Finding{Probe::refused, config.health + " answers with status " + std::to_string(head->status)};
  }
  if (!rest) co_return Finding{Probe::refused, rest.error().text};
  co_return Finding();
}

// Of one that is not there from the start each new reason is told; a program that the gateway starts may take its time
// to listen, so of that the supervisor tells.
void tell(Core& core, size_t index, Breaker::State before, std::string found) {
  const Dispatcher::Instance& instance = core.dispatcher.instances()[index];
  const Breaker::State after = instance.breaker.state();
  const std::string reason_before = std::exchange(core.not_up[index], std::move(found));
  const std::string_view reason = core.not_up[index];
  if (!Breaker::is_up(before) && Breaker::is_up(after)) {
    core.note(instance.upstream, {"up"});
  } else if (Breaker::is_up(before) && !Breaker::is_up(after)) {
    core.note(instance.upstream, {"down: ", reason});
  } else if (after == Breaker::State::starting && reason != reason_before &&
             !core.upstreams[instance.upstream].config.supervised()) {
    core.note(instance.upstream, {"not up: ", reason});
  }
}

asio::awaitable<void> watch(Core& core, size_t index, std::function<void(size_t)> came_up) {
  asio::steady_timer timer(*core.io);
  while (!core.closing) {
    const std::shared_ptr<net::HttpPeer> peer = core.peers[index];
    if (peer) {
      Finding found = co_await probe(core, peer, core.upstream_of(index).config);
      Dispatcher::Instance& instance = core.dispatcher.instances()[index];
      const Breaker::State before = instance.breaker.state();
      // What was asked of a process that is gone by now says nothing of its successor.
      const bool busy = instance.running > 0 || core.being_prepared[index];
      if (peer == core.peers[index]) instance.breaker.probed(found.result, busy, core.now());
      const Breaker::State after = instance.breaker.state();
      tell(core, index, before, std::move(found.reason));
      if (before != after && Breaker::is_up(after)) came_up(index);
    }
    core.settle();  // the queue's time limit is kept here too
    timer.expires_after(kProbeInterval);
    co_await timer.async_wait(kTuple);
  }
}

}  // namespace

void start_probes(Core& core, std::function<void(size_t)> came_up) {
  for (size_t i = 0; i < core.peers.size(); ++i) {
    core.run_until_done([&core, i, came_up] { return watch(core, i, came_up); });
  }
}

}  // namespace martlet::gateway
