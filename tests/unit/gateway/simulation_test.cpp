// A gateway's decisions in a simulated world: upstreams die, hang and come back, memory comes and goes, operators
// drain, clients come and leave, slow answers are hedged; ten thousand seeds of it under a virtual clock.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <tuple>

#include "gateway/dispatcher.h"
#include "gateway/tries.h"

namespace martlet::gateway {
namespace {

using namespace std::chrono_literals;
using Index = size_t;

class World {
 public:
  explicit World(unsigned seed) : random_(seed), dispatcher_(make_traits(), {.queue = 20, .queue_time = 5s}) {
    alive_.assign(dispatcher_.instances().size(), true);
    last_probe_.assign(alive_.size(), Time{} - 1s);
  }

  void run() {
    for (Index i = 0; i < alive_.size(); ++i) at(pick(1000) * 1ms, [this, i] { probe(i); });
    for (int i = 0; i < 60; ++i) at(pick(20'000) * 1ms, [this] { arrive(); });
    for (int i = 0; i < 12; ++i) at(pick(20'000) * 1ms, [this] { disturb(); });
    at(20s, [this] { heal(); });
    at(26s, [this] { healed_ = true, arrive(); });
    for (int i = 0; i < 8; ++i) at(26s + pick(4000) * 1ms, [this] { arrive(); });
    while (!events_.empty() && events_.top().when < Time{} + 60s) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.when;
      event.act();
      dispatcher_.settle(now_);
      check();
    }
    EXPECT_EQ(pending_, 0) << "a request without an answer";
    for (const auto& instance : dispatcher_.instances()) EXPECT_EQ(instance.running, 0);
  }
  int hedges() const { return hedges_; }

 private:
  struct Event {
    Time when;
    uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& other) const { return std::tie(other.when, other.order) < std::tie(when, order); }
  };
  struct Job {
    Wish wish;
    Tries tries;
    Duration patience{};  // of its first try; 0: it is not hedged
    int hedges = 0;
    bool left = false, answered = false, after_all_was_well = false;
  };

  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  void at(Duration after, std::function<void()> act) { events_.push({now_ + after, ++order_, std::move(act)}); }

  std::vector<UpstreamTraits> make_traits() {
    std::vector<UpstreamTraits> out(1 + pick(4));
    for (UpstreamTraits& traits : out) {
      traits.favoured = pick(2);
      traits.standby = pick(2);
      traits.bounded = pick(3) > 0;
      traits.limit = 1 + pick(3);
      traits.instances = 1 + pick(3);
    }
    out[0].bounded = true;  // something can always come back
    return out;
  }

  void arrive() {
    const auto job = std::make_shared<Job>();
    job->after_all_was_well = healed_;
    job->wish.prefix = static_cast<uint64_t>(pick(4));
    if (pick(2)) job->patience = (1 + pick(60)) * 1ms;
    ++pending_;
    send(job);
  }

  void send(const std::shared_ptr<Job>& job) {
    queued_.insert(job);
    dispatcher_.request(job->wish, now_, [this, job](Result<size_t> instance) {
      queued_.erase(job);
      if (!instance) return answer(job, false);
      granted(job, *instance);
    });
  }

  void granted(const std::shared_ptr<Job>& job, Index index) {
    const auto& instance = dispatcher_.instances()[index];
    const auto& traits = dispatcher_.traits(instance.upstream);
    ASSERT_LE(instance.running, traits.limit);
    ASSERT_FALSE(instance.draining);
    ASSERT_TRUE(traits.bounded || pressure_ != Pressure::critical);
    ASSERT_EQ(std::count(job->wish.tried.begin(), job->wish.tried.end(), index), 0);
    const auto state = instance.breaker.state();
    ASSERT_TRUE(state == Breaker::State::closed || state == Breaker::State::half_open);
    job->wish.tried.push_back(index);
    const Tries::Id id = job->tries.began(now_, job->tries.begun() == 0 ? job->patience : Duration{});
    at(pick(50) * 1ms, [this, job, index, id, era = instance.breaker.era()] { first_byte(job, index, id, era); });
    if (const auto due = job->tries.due()) at(*due - now_, [this, job] { hedge(job); });
  }

  // As the gateway does it: an instance that is free now, none is waited for.
  void hedge(const std::shared_ptr<Job>& job) {
    if (!job->tries.hedges(now_) || job->left) return;
    EXPECT_FALSE(job->answered) << "hedged with an answer there";
    const auto take = [this, job](Result<size_t> instance) {
      if (!instance) return;
      EXPECT_EQ(++job->hedges, 1) << "more than one hedge";
      ++hedges_;
      granted(job, *instance);
    };
    dispatcher_.withdraw(dispatcher_.request(job->wish, now_, take));
  }

  // The client's or another upstream's doing says nothing of this one.
  void abandon(Index index, Breaker::Era era) {
    dispatcher_.instances()[index].breaker.abandoned(era);
    dispatcher_.release(index);
  }

  void first_byte(const std::shared_ptr<Job>& job, Index index, Tries::Id id, Breaker::Era era) {
    Breaker& breaker = dispatcher_.instances()[index].breaker;
    const int fate = well_ ? 99 : pick(100);
    job->tries.ended(id);
    if (job->left || job->tries.outrun(id)) return abandon(index, era);
    if (alive_[index] && fate >= 10) {
      ASSERT_TRUE(job->tries.speaks(id));
      breaker.succeeded(era);
      answer(job, true);
      return at(pick(well_ ? 300 : 1500) * 1ms, [this, index] { dispatcher_.release(index); });
    }
    if (fate < 3) {
      job->left = true;
      answer(job, true);  // nothing to say
      return abandon(index, era);
    }
    breaker.failed(era, !alive_[index], now_);
    dispatcher_.release(index);
    if (job->tries.running() > 0) return;  // the other one may still answer
    if (job->tries.more()) return send(job);
    answer(job, false);
  }

  void answer(const std::shared_ptr<Job>& job, bool good) {
    ASSERT_FALSE(job->answered) << "two answers";
    EXPECT_LE(job->tries.begun(), 2);
    job->answered = true;
    --pending_;
    if (job->after_all_was_well) {
      EXPECT_TRUE(good) << "refused six seconds after everything was well again";
    }
  }

  void probe(Index index) {
    ASSERT_GE(now_ - last_probe_[index], 1s);
    last_probe_[index] = now_;
    auto& instance = dispatcher_.instances()[index];
    const bool hangs = alive_[index] && !well_ && pick(20) == 0;
    instance.preparing = false;
    instance.breaker.probed(!alive_[index] ? Probe::refused
                            : hangs        ? Probe::silent
                                           : Probe::ok,
                            instance.running > 0, now_);
    at(1s, [this, index] { probe(index); });
  }

  void disturb() {
    const Index index = static_cast<Index>(pick(static_cast<int>(alive_.size())));
    switch (pick(4)) {
      case 0:
        alive_[index] = false;
        break;
      case 1:
        alive_[index] = true;
        break;
      case 2:
        dispatcher_.instances()[index].draining = pick(2);
        break;
      default:
        dispatcher_.set_pressure(pressure_ = static_cast<Pressure>(pick(3)));
    }
  }

  void heal() {
    well_ = true;
    alive_.assign(alive_.size(), true);
    for (auto& instance : dispatcher_.instances()) instance.draining = false;
    dispatcher_.set_pressure(pressure_ = Pressure::normal);
  }

  // No request waits while an instance that may serve it is free.
  void check() const {
    for (const auto& job : queued_) {
      for (const auto& instance : dispatcher_.instances()) {
        ASSERT_FALSE(dispatcher_.usable(instance, job->wish) && instance.breaker.admits() &&
                     instance.running < dispatcher_.traits(instance.upstream).limit);
      }
    }
  }

  std::mt19937 random_;
  Time now_{};
  uint64_t order_ = 0;
  std::priority_queue<Event> events_;
  Dispatcher dispatcher_;
  std::vector<bool> alive_;
  std::vector<Time> last_probe_;
  Pressure pressure_ = Pressure::normal;
  int pending_ = 0, hedges_ = 0;
  std::set<std::shared_ptr<Job>> queued_;
  bool well_ = false, healed_ = false;  // no fault from now on; for long enough that nothing is refused
};

TEST(Simulation, TenThousandSeeds) {
  int64_t hedges = 0;
  for (unsigned seed = 0; seed < 10'000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    world.run();
    hedges += world.hedges();
  }
  EXPECT_GT(hedges, 10'000) << "hardly any request was hedged";
}

}  // namespace
}  // namespace martlet::gateway
