// A gateway's decisions in a simulated world: upstreams die, hang and come back, memory comes and goes and is read with
// noise, drafts are accepted here and not there, operators drain, clients come and leave, slow answers are hedged; ten
// thousand seeds of it under a virtual clock.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <tuple>

#include "gateway/dispatcher.h"
#include "gateway/draft_rule.h"
#include "gateway/pressure.h"
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
    while (drafts_.size() <= dispatcher_.instances().back().upstream) {
      drafts_.push_back({.accepts = pick(2) > 0, .rule = DraftRule({.try_again = kTryDraftsAgain})});
    }
  }

  void run() {
    for (Index i = 0; i < alive_.size(); ++i) at(pick(1000) * 1ms, [this, i] { probe(i); });
    for (int i = 0; i < 60; ++i) at(pick(20'000) * 1ms, [this] { arrive(); });
    for (int i = 0; i < 12; ++i) at(pick(20'000) * 1ms, [this] { disturb(); });
    at(0s, [this] { read_memory(); });
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
    EXPECT_LE(level_changes_, 2 * memory_changes_) << "pressure flaps";
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

  // An upstream's drafts: all of them are accepted, or none.
  struct Drafts {
    bool accepts;
    DraftRule rule;
    int64_t in_vain = 0;  // drafted tokens that were not accepted
  };
  static constexpr Duration kTryDraftsAgain = 5s, kCalm = 2s;

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
    ASSERT_TRUE(traits.bounded || pressure_.level() != Pressure::critical);
    ASSERT_TRUE(traits.bounded || share_ < kCritical || now_ - share_since_ < 1s) << "critical for a second";
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
      draft(drafts_[dispatcher_.instances()[index].upstream]);
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
        constexpr double kShares[] = {0.5, 0.86, kCritical};
        use_memory(kShares[pick(3)]);
    }
  }

  void use_memory(double share) {
    memory_changes_ += share != share_;
    if (share != share_) share_since_ = now_;
    share_ = share;
  }

  // A reading is off by up to two hundredths, and now and then by far: one such is no trend.
  void read_memory() {
    const double noise = 0.02 * (pick(2001) - 1000) / 1000;
    spiked_ = pick(10) == 0 && !spiked_ && now_ - share_since_ > 1s;
    const double seen = !spiked_ ? share_ + noise : share_ < 0.9 ? 0.99 : 0.5;
    const Pressure before = pressure_.level();
    dispatcher_.set_pressure(pressure_.update(seen, now_));
    level_changes_ += pressure_.level() != before;
    at(250ms, [this] { read_memory(); });
  }

  // What an answer tells of its drafts, where it was asked for any.
  void draft(Drafts& drafts) {
    constexpr int64_t kDrafted = 8;
    if (!drafts.rule.drafts(now_)) {
      EXPECT_FALSE(drafts.accepts) << "drafts that are all accepted are worth asking for";
      return;
    }
    drafts.rule.saw(kDrafted, drafts.accepts ? kDrafted : 0, now_);
    if (!drafts.accepts) drafts.in_vain += kDrafted;
    const int64_t trials = 1 + (now_ - Time{}) / kTryDraftsAgain;
    EXPECT_LE(drafts.in_vain, 32 * trials) << "a window of them, and one for each time they are tried again";
  }

  void heal() {
    well_ = true;
    alive_.assign(alive_.size(), true);
    for (auto& instance : dispatcher_.instances()) instance.draining = false;
    use_memory(0.5);
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
  static constexpr double kCritical = 0.97;
  double share_ = 0.5;  // of memory, as it is
  Time share_since_{};
  bool spiked_ = false;
  PressureRule pressure_{{.calm = kCalm}};
  int memory_changes_ = 0, level_changes_ = 0;
  std::vector<Drafts> drafts_;
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
