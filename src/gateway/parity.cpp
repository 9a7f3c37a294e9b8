#include "gateway/parity.h"

#include <algorithm>
#include <set>

namespace martlet::gateway {
namespace {

bool alike(const std::string& question, const std::string& a, const std::string& b) {
  const bool answers = question.starts_with("stop/") && question != kStopTokens;
  return answers ? stops_alike(a, b) : a == b;
}

}  // namespace

bool stops_alike(std::string_view a, std::string_view b) {
  const auto ended = [](std::string_view answer) { return answer.starts_with("stop|"); };
  const auto text = [](std::string_view answer) { return answer.substr(answer.find('|') + 1); };
  const auto goes_on = [&](std::string_view longer, std::string_view shorter) {
    return ended(shorter) && text(longer).size() > text(shorter).size() && text(longer).starts_with(text(shorter));
  };
  return !goes_on(a, b) && !goes_on(b, a);
}

std::vector<std::string> differences(const Fingerprint& a, const Fingerprint& b) {
  std::set<std::string> out;
  int asked = 0, greedy_asked = 0, greedy_different = 0;
  for (const auto& [question, answer] : a) {
    const auto other = b.find(question);
    if (other == b.end()) continue;
    const std::string aspect = question.substr(0, question.find('/'));
    const bool same = alike(question, answer, other->second);
    ++asked;
    if (aspect == "greedy") {
      ++greedy_asked;
      greedy_different += !same;
    } else if (!same) {
      out.insert(aspect);
    }
  }
  if (2 * greedy_different > greedy_asked) out.insert("greedy");
  if (asked == 0) out.insert("unknown");
  return {out.begin(), out.end()};
}

bool OptionalRoutes::hold_up() {
  constexpr int kTimes = 2;
  if (pause_ == 0 && held_up_ < kTimes) pause_ = 1 << held_up_++;
  return pause_ > 0;
}

bool OptionalRoutes::due() {
  if (pause_ > 0) --pause_;
  return pause_ == 0;
}

void carry_over(Fingerprint& now, const Fingerprint& before, const std::vector<std::string>& given_up) {
  for (const std::string& question : given_up) {
    const auto answer = before.find(question);
    if (answer != before.end()) now.insert(*answer);
  }
}

std::vector<std::string> not_accepted(std::vector<std::string> found, const std::vector<std::string>& accepted) {
  const auto has = [&](const std::string& name) {
    return std::find(accepted.begin(), accepted.end(), name) != accepted.end();
  };
  if (has("all")) return {};
  std::erase_if(found, has);
  return found;
}

}  // namespace martlet::gateway
