#include "bench/load.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>

namespace martlet::bench {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr auto kAskAgain = std::chrono::milliseconds(100);  // whether to stop

struct Running {
  asio::io_context io;
  const std::vector<std::unique_ptr<Instance>>& instances;
  const Load& load;
  const std::function<void(const Measurement&)>& progress;
  const StopAsked& stop;
  Clock::time_point begin = Clock::now();
  int next = 0;
  std::vector<Measurement> answers;
};

// One stream: takes the next request as soon as it has the answer to its last.
asio::awaitable<void> stream(Running& run, size_t instance) {
  while (run.next < run.load.requests && !run.stop()) {
    const size_t prompt = static_cast<size_t>(run.load.first_prompt + run.next++) % run.load.prompts.size();
    const Ask what{run.load.prompts[prompt], run.load.max_tokens};
    Measurement m = co_await run.instances[instance]->ask(run.io, what, run.begin);
    m.prompt = static_cast<int>(prompt);
    m.instance = static_cast<int>(instance);
    m.offered = run.load.offered_at_once ? 0 : m.sent;
    run.progress(m);
    run.answers.push_back(std::move(m));
  }
}

}  // namespace

std::vector<Measurement> run_load(const std::vector<std::unique_ptr<Instance>>& instances, const Load& load,
                                  const std::function<void(const Measurement&)>& progress, const StopAsked& stop) {
  Running run{.instances = instances, .load = load, .progress = progress, .stop = stop};
  for (int s = 0; s < load.streams; ++s) {
    for (size_t i = 0; i < instances.size(); ++i) asio::co_spawn(run.io, stream(run, i), asio::detached);
  }
  // Streams that are in flight when it stops are given up.
  while (!run.io.stopped() && !stop()) run.io.run_for(kAskAgain);
  return std::move(run.answers);
}

}  // namespace martlet::bench
