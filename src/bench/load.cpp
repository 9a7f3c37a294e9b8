#include "bench/load.h"

#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>

namespace martlet::bench {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr auto kAskAgain = std::chrono::milliseconds(100);  // whether to stop
constexpr auto kNap = std::chrono::milliseconds(4);
constexpr size_t kManyStreams = 8;

struct Running {
  asio::io_context io;
  const std::vector<std::unique_ptr<Instance>>& instances;
  const Load& load;
  const std::function<void(const Measurement&)>& progress;
  const StopAsked& stop;
  Clock::time_point begin = Clock::now();
  int next = 0;
  int unstarted = 0;  // requests that wait for their first token
  std::vector<Measurement> answers;
};

// One stream: takes the next request as soon as it has the answer to its last.
asio::awaitable<void> stream(Running& run, size_t instance) {
  while (run.next < run.load.requests && !run.stop()) {
    const size_t prompt = static_cast<size_t>(run.load.first_prompt + run.next++) % run.load.prompts.size();
    ++run.unstarted;
    const Ask what{run.load.prompts[prompt], run.load.max_tokens, &run.unstarted};
    Measurement m = co_await run.instances[instance]->ask(run.io, what, run.begin);
    if (m.first_token == 0) --run.unstarted;  // it never came
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
  // Waking for every token of many streams would cost more than a percent of a core. While all of them are past their
  // first token, only the end of an answer is timed, so a short nap lets tokens gather.
  const bool naps = instances.size() * static_cast<size_t>(load.streams) >= kManyStreams;
  Clock::time_point asked;
  while (!run.io.stopped()) {
    if (const auto now = Clock::now(); now - asked >= kAskAgain) {
      asked = now;
      if (stop()) break;
    }
    run.io.run_one_for(kAskAgain);
    if (!naps || run.unstarted > 0) continue;
    std::this_thread::sleep_for(kNap);
    run.io.poll();
  }
  return std::move(run.answers);
}

}  // namespace martlet::bench
