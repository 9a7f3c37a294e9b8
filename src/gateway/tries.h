#pragma once

// How often a request is tried, and which try answers: at most two, the second after the first failed, or beside it
// when that one keeps the client waiting (hedging). No I/O and no clock of its own.

#include <optional>
#include <vector>

#include "gateway/time.h"

namespace martlet::gateway {

class Tries {
 public:
  using Id = int;
  static constexpr int kMost = 2;

  // Another may begin: there was no answer, and there are tries left.
  bool more() const { return begun_ < kMost && !speaker_; }
  // `patience`: how long this one may be without an answer before another is asked beside it; 0: for ever.
  Id began(Time now, Duration patience) {
    running_.push_back(next_);
    due_ = patience > Duration{} && begun_ + 1 < kMost ? std::optional(now + patience) : std::nullopt;
    ++begun_;
    return next_++;
  }
  // Of one that has been told of before, nothing more.
  void ended(Id id) noexcept { std::erase(running_, id); }
  // One that was begun was never sent: it took nothing of anybody, and does not count.
  void refused() { --begun_; }
  // Once, when the one that runs has used up its patience: whoever asks tries to begin another.
  bool hedges(Time now) {
    if (!due_ || now < *due_ || !more() || running_.empty()) return false;
    due_.reset();
    return true;
  }
  // When hedges() is to be asked; nullopt: not at all, as things are.
  std::optional<Time> due() const { return more() ? due_ : std::nullopt; }
  // This try has an answer that is good so far: true when it is the one that the client gets.
  bool speaks(Id id) {
    if (!speaker_) speaker_ = id;
    return *speaker_ == id;
  }
  std::optional<Id> speaker() const { return speaker_; }
  // Another was faster.
  bool outrun(Id id) const { return speaker_ && *speaker_ != id; }

  int begun() const { return begun_; }  // of those that count
  int running() const { return static_cast<int>(running_.size()); }

 private:
  Id next_ = 0;
  int begun_ = 0;
  std::vector<Id> running_;
  std::optional<Time> due_;
  std::optional<Id> speaker_;
};

}  // namespace martlet::gateway
