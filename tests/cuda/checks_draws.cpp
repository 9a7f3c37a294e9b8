#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "backend/choose.h"
#include "checks.h"

namespace martlet::gpu {
namespace {

constexpr int32_t kRows = 24;  // of logits, from flat to steep

Sampling sampling_of(uint64_t draw) {
  static const Sampling all[] = {
      {.temperature = 0.8f},
      {.temperature = 1},
      {.temperature = 1.7f},
      {.temperature = 0.01f},
      {.temperature = 100},
      {.temperature = 0.8f, .top_k = 40},
      {.temperature = 1, .top_k = 1},
      {.temperature = 2, .top_k = 900},
      {.temperature = 1, .top_k = 1024},
      {.temperature = 1, .top_k = 5000},
      {.temperature = 0.7f, .top_p = 0.9f},
      {.temperature = 1, .top_p = 0.95f},
      {.temperature = 1, .top_p = 0},
      {.temperature = 1.2f, .top_p = 0.999999f},
      {.temperature = 100, .top_p = 0.5f},
      {.temperature = 1, .min_p = 0.05f},
      {.temperature = 1, .min_p = 1},
      {.temperature = 1.3f, .min_p = 1e-6f},
      {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f},
      {.temperature = 1, .top_p = 0.9f, .min_p = 0.01f},
      {.temperature = 1, .top_p = 0.9f, .typical_p = 0.8f},
      {.temperature = 0},
  };
  Sampling out = all[draw % std::size(all)];
  out.seed = draw / 7;
  out.draw = draw;
  return out;
}

std::string named(const Sampling& s) {
  char text[160];
  std::snprintf(text, sizeof text, "temperature %g, top-k %d, top-p %g, min-p %g, typical %g", s.temperature, s.top_k,
                s.top_p, s.min_p, s.typical_p);
  return text;
}

// Rows of a table that are logits themselves: of normal deviation, which grows from row to row, with ties in some.
class Logits {
 public:
  Logits(Backend& backend, int32_t columns) : columns_(static_cast<size_t>(columns)) {
    table_ = random_floats(static_cast<size_t>(kRows) * columns_, static_cast<uint32_t>(columns));
    for (size_t i = 0; i < table_.size(); ++i) {
      const size_t row = i / columns_;
      table_[i] *= 0.2f * static_cast<float>(row);
      if (row % 4 == 3) table_[i] = std::round(2 * table_[i]) / 2;
    }
    const CacheGroup group = {CacheGroup::Kind::paged, 1, 1, 16, 16, 160};
    const Upload upload = {{view_of(table_, columns)}};
    open_.emplace(backend, group, std::span(&upload, 1));
  }

  bool prepare() { return open_->prepare(forward); }

  // One row each: of sequences of their own, or of one.
  std::vector<float> run(std::span<const Token> tokens, bool apart, std::span<const Choice> choices,
                         std::vector<Chosen>& chosen) {
    Rows rows;
    std::vector<Page> pages(apart ? 1 : (tokens.size() + 31) / 32);
    if (!apart) rows.add(tokens, 0, pages);
    for (size_t i = 0; apart && i < tokens.size(); ++i) rows.add(tokens.subspan(i, 1), 0, pages);
    chosen.assign(tokens.size(), {});
    return open_->run(rows, forward, choices, chosen);
  }

  std::span<const float> row(const std::vector<float>& logits, size_t i) const {
    return std::span(logits).subspan(i * columns_, columns_);
  }

 private:
  static Tensor forward(Backend& b, std::span<const Weight> w) { return b.embed(w[0]); }

  size_t columns_;
  std::vector<float> table_;
  std::optional<Open> open_;
};

void check_same(Logits& logits, int32_t columns, int32_t count, bool apart, Tally& tally) {
  Chooser chooser;
  std::vector<Chosen> chosen;
  std::map<std::string, int> different;
  int all = 0, wrong = 0;
  for (int32_t step = 0; step < 12; ++step) {
    std::vector<Token> tokens;
    std::vector<Choice> choices;
    const std::vector<Adjust> ban = {{5, 1, 3}};
    for (int32_t i = 0; i < count; ++i) {
      const auto draw = static_cast<uint64_t>(step * count + i);
      tokens.push_back((5 * step + i) % kRows);
      choices.push_back({.sampling = sampling_of(draw)});
      if (draw % 31 == 0) choices.back().adjust = ban;
    }
    const std::vector<float> rows = logits.run(tokens, apart, choices, chosen);
    for (size_t i = 0; i < choices.size() && !rows.empty(); ++i, ++all) {
      if (chooser.choose(logits.row(rows, i), choices[i], {}).token == chosen[i].token) continue;
      ++wrong;
      ++different[named(choices[i].sampling)];
    }
  }
  std::string detail = std::to_string(all - wrong) + " of " + std::to_string(all) + " as the host draws them";
  for (const auto& [name, times] : different) detail += "; " + name + ": " + std::to_string(times);
  tally.expect(wrong == 0 && all == 12 * count,
               "draws of " + std::to_string(count) + " rows of " + std::to_string(columns) +
                   (apart ? ", a sequence each" : ", one sequence"),
               detail);
}

// chi-square of draws from one row against what filters leave of its distribution.
void check_distribution(Logits& logits, Sampling sampling, Tally& tally) {
  constexpr int kSteps = 160, kCount = 128;
  constexpr Token kRow = 6;
  const std::vector<Token> tokens(kCount, kRow);
  std::vector<Choice> choices(kCount);
  std::vector<Chosen> chosen;
  std::vector<float> rows;
  std::map<Token, double> seen;
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kCount; ++i) {
      sampling.draw = static_cast<uint64_t>(step * kCount + i);
      choices[static_cast<size_t>(i)].sampling = sampling;
    }
    rows = logits.run(tokens, true, choices, chosen);
    for (const Chosen& c : chosen) seen[c.token] += 1;
  }
  const std::span<const float> row = logits.row(rows, 0);
  std::vector<Token> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](Token a, Token b) {
    const float x = row[static_cast<size_t>(a)], y = row[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  const auto weight = [&](Token t) {
    return std::exp((double{row[static_cast<size_t>(t)]} - row[static_cast<size_t>(order[0])]) / sampling.temperature);
  };
  if (sampling.top_k > 0) order.resize(static_cast<size_t>(sampling.top_k));
  double total = 0, kept = 0;
  for (const Token t : order) total += weight(t);
  size_t left = 0;
  while (left < order.size() && (left == 0 || kept < sampling.top_p * total)) kept += weight(order[left++]);
  order.resize(left);
  std::erase_if(order, [&](Token t) { return weight(t) < sampling.min_p; });
  total = 0;
  for (const Token t : order) total += weight(t);
  double chi = 0, rest_seen = 0, rest_wanted = 0, inside = 0;
  int cells = 0;
  for (const Token t : order) {
    const double wanted = weight(t) / total * kSteps * kCount;
    inside += seen[t];
    if (wanted < 10) {
      rest_wanted += wanted, rest_seen += seen[t];
      continue;
    }
    chi += (seen[t] - wanted) * (seen[t] - wanted) / wanted;
    ++cells;
  }
  if (rest_wanted >= 10) chi += (rest_seen - rest_wanted) * (rest_seen - rest_wanted) / rest_wanted, ++cells;
  // Wilson and Hilferty: 4.75 sigma is one in 10^6.
  const double freedom = std::max(1, cells - 1);
  const double limit = freedom * std::pow(1 - 2 / (9 * freedom) + 4.75 * std::sqrt(2 / (9 * freedom)), 3);
  tally.expect(
      chi < limit && inside == kSteps * kCount, "distribution, " + named(sampling),
      "chi-square " + std::to_string(chi) + " of " + std::to_string(limit) + ", " + std::to_string(cells) + " cells");
}

}  // namespace

void check_draws(Backend& cuda, Tally& tally) {
  for (const int32_t columns : {70, 1003, 4096, 49152, 151936}) {
    Logits logits(cuda, columns);
    tally.expect(logits.prepare(), "draws, graphs", "");
    for (const int32_t count : {1, 5, 128}) check_same(logits, columns, count, true, tally);
    check_same(logits, columns, 40, false, tally);
  }
  Logits logits(cuda, 1003);
  tally.expect(logits.prepare(), "draws, graphs", "");
  for (const Sampling& sampling :
       {Sampling{.temperature = 1, .seed = 1}, Sampling{.temperature = 0.6f, .seed = 2},
        Sampling{.temperature = 1, .top_k = 20, .seed = 3}, Sampling{.temperature = 1, .top_p = 0.8f, .seed = 4},
        Sampling{.temperature = 1, .min_p = 0.1f, .seed = 5},
        Sampling{.temperature = 1.5f, .top_k = 100, .top_p = 0.8f, .min_p = 0.02f, .seed = 6}})
    check_distribution(logits, sampling, tally);
}

}  // namespace martlet::gpu
