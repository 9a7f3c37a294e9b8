#pragma once

#include <bitset>
#include <cstdint>

namespace martlet {

// The plain controller of one sequence. It drafts 3 to 6 tokens: one more after a draft that was right to its end, one
// fewer after another. Of the last 32 drafted tokens it keeps which were accepted; where fewer than
// 40 % of 32 were, or would be if all that are not known yet were, it drafts nothing for 64 tokens, then probes with 3:
// where 40 % of those are right, it starts anew.
class WindowRule {
 public:
  static constexpr int32_t kWindow = 32, kPause = 64, kShortest = 3, kLongest = 6;
  static constexpr double kLeast = 0.4;

  int32_t length() const { return pause_ > 0 ? 0 : length_; }
  // A step is over: `drafted` tokens were verified, the first `accepted` of them right, and `added` tokens joined the
  // text.
  void verified(int32_t drafted, int32_t accepted, int32_t added);

 private:
  void restart();

  std::bitset<kWindow> window_;  // [i]: the i-th last drafted token was accepted
  int32_t known_ = 0;            // of the window
  int32_t length_ = kShortest;
  int32_t pause_ = 0;  // tokens until the next probe
  bool probing_ = false;
};

}  // namespace martlet
