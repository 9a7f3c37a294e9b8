#include "bench/load.h"

#include <thread>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>

namespace martlet::bench {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr auto kAskAgain = std::chrono::milliseconds(100);  // whether to stop
constexpr auto kGather = std::chrono::milliseconds(1);

struct Running {
  asio::io_context io;
  std::span<const std::unique_ptr<Instance>> instances;
  const Load& load;
  const std::function<void(const Measurement&)>& progress;
  const StopAsked& stop;
  Clock::time_point begin = Clock::now();
  int next = 0;
  int in_flight = 0, awaited = 0;  // requests; those of them whose first text has not come
  std::vector<Measurement> answers;

  // Of an answer's tokens the first and the last are asked for their time. While many streams are between the two,
  // tokens are gathered for a millisecond and read together, which costs less than to wake for each. An answer's last
  // token, and with it the stream's next request, may be late by that.
  bool gathers() const { return in_flight > 1 && awaited == 0; }
};

// One stream: takes the next request as soon as it has the answer to its last.
asio::awaitable<void> stream(Running& run, size_t instance) {
  while (run.next < run.load.requests && !run.stop()) {
    const size_t prompt = static_cast<size_t>(run.load.first_prompt + run.next++) % run.load.prompts.size();
    bool awaited = true;
    const Ask what{run.load.prompts[prompt], run.load.max_tokens,
                   [&run, &awaited] { run.awaited -= std::exchange(awaited, false); }};
    ++run.in_flight, ++run.awaited;
    Measurement m = co_await run.instances[instance]->ask(run.io, what, run.begin);
    what.first_text();  // if it never came
    --run.in_flight;
    m.prompt = static_cast<int>(prompt);
    m.instance = static_cast<int>(instance);
    m.offered = run.load.offered_at_once ? 0 : m.sent;
    run.progress(m);
    run.answers.push_back(std::move(m));
  }
}

}  // namespace

std::vector<Measurement> run_load(std::span<const std::unique_ptr<Instance>> instances, const Load& load,
                                  const std::function<void(const Measurement&)>& progress, const StopAsked& stop) {
  Running run{.instances = instances, .load = load, .progress = progress, .stop = stop};
  for (int s = 0; s < load.streams; ++s) {
    for (size_t i = 0; i < instances.size(); ++i) asio::co_spawn(run.io, stream(run, i), asio::detached);
  }
  // Streams that are in flight when it stops are given up.
  for (Clock::time_point asked{}; !run.io.stopped();) {
    if (Clock::now() - asked >= kAskAgain) {
      if (stop()) break;
      asked = Clock::now();
    }
    run.io.run_one_for(kAskAgain);
    run.io.poll();
    if (run.gathers()) std::this_thread::sleep_for(kGather);
  }
  return std::move(run.answers);
}

}  // namespace martlet::bench
