#include "bench/session.h"

#include <cmath>
#include <span>

#include "bench/load.h"
#include "bench/machine.h"

namespace martlet::bench {
namespace {

constexpr double kSettled = 0.05;  // between the last two answers' times per token

using Instances = std::span<const std::unique_ptr<Instance>>;

class TurnRunner {
 public:
  TurnRunner(Target& target, const Amounts& amounts, const Turn& turn, const Listener& listener)
      : target_(target), amounts_(amounts), turn_(turn), listener_(listener) {
    run_.engine = target.info().name;
    run_.kind = turn.kind;
    run_.concurrency = turn.concurrency;
    run_.instances = turn.instances;
    run_.round = turn.round;
  }

  Status run() {
    MARTLET_TRY(start());
    warm_up();
    if (listener_.stop()) return {};
    measure();
    listener_.measured(std::move(run_));
    return {};
  }

 private:
  Status start() {
    listener_.doing(turn_, "starts");
    for (int i = 0; i < turn_.instances; ++i) {
      MARTLET_ASSIGN(std::unique_ptr<Instance> instance, target_.start(listener_.stop));
      if (instance->process() > 0) processes_.push_back(instance->process());
      instances_.push_back(std::move(instance));
    }
    return {};
  }

  // Each process by itself: one that is slow to start would leave requests of a common queue to the others.
  void warm_up() {
    listener_.doing(turn_, "warms up");
    bool settled = true;
    for (size_t i = 0; i < instances_.size(); ++i) settled &= warm_up(std::span(instances_).subspan(i, 1));
    if (!settled && amounts_.warmup_batches > 1) run_.noise.push_back("rates had not settled after the warm-up");
  }

  // Until the last two answers took about as long per token; false when they never did.
  bool warm_up(Instances one) {
    if (target_.starts()) {
      std::vector<Measurement> first = load(one, 1, 1, false);
      if (!first.empty() && !run_.cold) run_.cold = std::move(first.front());
    }
    bool settled = false;
    for (int batch = 0; batch < amounts_.warmup_batches && !settled && !listener_.stop(); ++batch) {
      const std::vector<Measurement> answers = load(one, turn_.warmup, turn_.concurrency, false);
      const size_t n = answers.size();
      settled = n >= 2 && std::abs(tpot(answers[n - 1]) / tpot(answers[n - 2]) - 1) < kSettled;
    }
    return settled;
  }

  void measure() {
    listener_.doing(turn_, "measures");
    Watch watch(processes_);
    watch_ = &watch;
    run_.requests = load(instances_, turn_.measured, turn_.concurrency, turn_.kind == Kind::dispatch);
    watch_ = nullptr;
    watch.end();
    run_.peak_memory_mib = watch.peak_memory_mib();
    run_.energy_j = watch.energy_j();
    run_.harness_cores = watch.harness_cores();
    run_.noise.insert(run_.noise.end(), watch.noise().begin(), watch.noise().end());
  }

  std::vector<Measurement> load(Instances instances, int requests, int streams, bool offered_at_once) {
    const Load load{.prompts = amounts_.contract.prompts(),
                    .first_prompt = 0,
                    .requests = requests,
                    .max_tokens = amounts_.max_tokens,
                    .streams = streams,
                    .offered_at_once = offered_at_once};
    return run_load(
        instances, load, [this](const Measurement& m) { listener_.answered(turn_, m); },
        [this] {
          if (watch_) watch_->look();
          return listener_.stop();
        });
  }

  Target& target_;
  const Amounts& amounts_;
  const Turn& turn_;
  const Listener& listener_;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::vector<int> processes_;
  Watch* watch_ = nullptr;
  Run run_;
};

}  // namespace

Status run_session(const std::vector<std::unique_ptr<Target>>& targets, const Amounts& amounts,
                   const std::vector<Turn>& turns, const Listener& listener) {
  for (const Turn& turn : turns) {
    if (listener.stop()) return {};
    const Status status = TurnRunner(*targets[turn.target], amounts, turn, listener).run();
    if (!status && !listener.stop()) return status;
  }
  return {};
}

}  // namespace martlet::bench
