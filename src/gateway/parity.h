#pragma once

// Whether two upstreams do the same with a prompt, by what their APIs let be seen. Pure rules; preparation.cpp asks.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace martlet::gateway {

// What was seen of an upstream: by the name of a question ("vocabulary/3"), its answer. The part before the slash is
// the aspect that a difference is named after:
//   vocabulary  token ids of texts, all pieces (tokenize routes, files)
//   special     BOS, EOS and stop tokens       (files)
//   bos         whether a bare text gets a BOS token (usage of completions, files)
//   template    text or token count of chats   (apply-template routes, usage of chats, files), but texts with the date
//   greedy      first token of chats           (chats)
//   stop        where an answer ends           (chats), the tokens that end one (files)
using Fingerprint = std::map<std::string, std::string>;

inline constexpr const char* kStopTokens = "stop/tokens";  // not an answer, but ids: equal or different

// The aspects, sorted, in which the two differ; {"unknown"} when nothing was asked of both. First tokens may differ
// where two are about as likely: `greedy` is a difference only when most of them do.
std::vector<std::string> differences(const Fingerprint& a, const Fingerprint& b);

// A "stop" answer: "finish_reason|text". They differ when one goes on where the other has ended.
bool stops_alike(std::string_view a, std::string_view b);

// How long routes that an upstream need not have hold its comparison up where they fail: it is asked again after one
// round, then after two; from the third time on it is compared without them.
class OptionalRoutes {
 public:
  // One of them fails: true when the comparison waits for it. Of instances that are compared at once the first counts.
  bool hold_up();
  // Once a round: whether the time has come to ask again.
  bool due();
  void finished() { *this = {}; }  // the comparison

 private:
  int held_up_ = 0, pause_ = 0;  // times, rounds
};

// Takes over the answers that were given before to those questions, which were given up this time.
void carry_over(Fingerprint& now, const Fingerprint& before, const std::vector<std::string>& given_up);

// Those of `found` that the user has not accepted; "all" accepts every one.
std::vector<std::string> not_accepted(std::vector<std::string> found, const std::vector<std::string>& accepted);

}  // namespace martlet::gateway
