// Aho-Corasick: a state of the machine is the longest end of the text that is the beginning of a stop string. Nothing
// before it can become part of a match, so that is what may be shown.

#include <algorithm>
#include <utility>

#include "text/byte_trie.h"
#include "text/detokenizer.h"

namespace martlet {

struct StopStrings::Machine {
  explicit Machine(std::vector<std::string> strings);
  // The state after one more byte; amortised constant time.
  uint32_t follow(uint32_t from, uint8_t byte) const;

  std::vector<std::string> stops;
  ByteTrie trie;                   // indices into stops
  std::vector<uint32_t> fallback;  // by node: the longest proper end of it that is a node too
  std::vector<uint32_t> depth;     // by node
  std::vector<uint32_t> match;     // by node: the longest stop string that ends here, kNone when there is none
  uint32_t state = ByteTrie::kRoot;
  uint32_t matched = ByteTrie::kNone;
  std::string held;  // the last depth[state] bytes, unless there was a match
};

StopStrings::Machine::Machine(std::vector<std::string> strings) : stops(std::move(strings)) {
  std::erase(stops, "");
  for (size_t i = 0; i < stops.size(); ++i) trie.insert(stops[i], static_cast<uint32_t>(i));
  fallback.assign(trie.nodes(), ByteTrie::kRoot);
  depth.assign(trie.nodes(), 0);
  match.assign(trie.nodes(), ByteTrie::kNone);

  // By length of prefix, so that every shorter node is finished first. `at[i]`: the node of the prefix of stops[i].
  size_t longest = 0;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  std::vector<uint32_t> active(stops.size()), at(stops.size(), ByteTrie::kRoot);
  for (uint32_t i = 0; i < active.size(); ++i) active[i] = i;
  for (uint32_t length = 1; length <= longest; ++length) {
    std::erase_if(active, [&](uint32_t i) { return stops[i].size() < length; });
    for (const uint32_t i : active) {
      const auto byte = static_cast<uint8_t>(stops[i][length - 1]);
      const uint32_t parent = at[i], node = at[i] = trie.child(parent, byte);
      if (depth[node] != 0) continue;
      depth[node] = length;
      if (parent != ByteTrie::kRoot) fallback[node] = follow(fallback[parent], byte);
      match[node] = trie.value(node) != ByteTrie::kNone ? trie.value(node) : match[fallback[node]];
    }
  }
}

uint32_t StopStrings::Machine::follow(uint32_t from, uint8_t byte) const {
  for (;;) {
    const uint32_t next = trie.child(from, byte);
    if (next != ByteTrie::kNone) return next;
    if (from == ByteTrie::kRoot) return from;
    from = fallback[from];
  }
}

StopStrings::StopStrings(std::vector<std::string> stops) : machine_(std::make_unique<Machine>(std::move(stops))) {}
StopStrings::~StopStrings() = default;
StopStrings::StopStrings(StopStrings&&) noexcept = default;
StopStrings& StopStrings::operator=(StopStrings&&) noexcept = default;

std::string StopStrings::push(std::string_view text) {
  Machine& m = *machine_;
  if (stopped()) return {};
  std::string out = std::move(m.held);
  m.held.clear();
  size_t used = 0;
  while (used < text.size() && m.matched == ByteTrie::kNone) {
    m.state = m.follow(m.state, static_cast<uint8_t>(text[used++]));
    m.matched = m.match[m.state];
  }
  out += text.substr(0, used);
  const size_t cut = stopped() ? matched().size() : m.depth[m.state];
  if (!stopped()) m.held = out.substr(out.size() - cut);
  out.resize(out.size() - cut);
  return out;
}

std::string StopStrings::finish() {
  return std::exchange(machine_->held, {});
}
bool StopStrings::stopped() const {
  return machine_->matched != ByteTrie::kNone;
}
std::string_view StopStrings::matched() const {
  return stopped() ? std::string_view(machine_->stops[machine_->matched]) : std::string_view();
}

}  // namespace martlet
