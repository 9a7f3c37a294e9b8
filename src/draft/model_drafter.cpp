#include "draft/model_drafter.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "backend/choose.h"
#include "sample/draft_distribution.h"

namespace martlet {
namespace {

// Of the drafter's distribution, where drafts are drawn: what lies behind is seldom drawn and seldom accepted.
constexpr int32_t kBest = 64;
// Rows of a prompt that are computed in one step whatever they take: below it a step costs hardly less.
constexpr int32_t kLeastCatchUp = 64;

constexpr std::array<double, kConfidences - 1> kSure = {0.03, 0.08, 0.15, 0.25, 0.4, 0.55, 0.7, 0.82, 0.91, 0.96, 0.99};

int32_t confidence_of(double probability) {
  return static_cast<int32_t>(std::upper_bound(kSure.begin(), kSure.end(), probability) - kSure.begin());
}

// Whether drafts are drawn from the drafter's own distribution and verified against it, which accepts most of them. A
// greedy text has one right token; and a seeded one is owed the same tokens however it is computed, so there the
// drafter draws with the target's own random number and is right where the target's draw falls on the same token.
bool draws(const Sampler& sampler) {
  return !sampler.greedy() && !sampler.seeded();
}

}  // namespace

struct ModelDrafter::Rows {
  std::vector<Token> tokens;
  std::vector<int32_t> positions, starts{0}, context_lengths, page_starts{0}, outputs;
  std::vector<Page> pages;
  std::vector<Choice> choices;
  std::vector<Chosen> chosen;
  std::vector<TokenLogprob> top;

  int32_t size() const { return static_cast<int32_t>(tokens.size()); }
  int32_t mean_context() const {
    return static_cast<int32_t>(std::accumulate(positions.begin(), positions.end(), int64_t{size()}) / size());
  }
  void add(std::span<const Token> some, int32_t position, const std::vector<Page>& sequence_pages) {
    for (const Token token : some) {
      tokens.push_back(token);
      positions.push_back(position++);
    }
    starts.push_back(size());
    context_lengths.push_back(position);
    pages.insert(pages.end(), sequence_pages.begin(), sequence_pages.end());
    page_starts.push_back(static_cast<int32_t>(pages.size()));
  }
  // Of the last row that was added. Returns its index among the outputs.
  size_t add_output(const Choice& choice) {
    outputs.push_back(size() - 1);
    choices.push_back(choice);
    top.resize(top.size() + static_cast<size_t>(std::max(choice.top, 0)));
    return choices.size() - 1;
  }
};

struct ModelDrafter::Active {
  size_t task;
  Cached* cached;
  std::vector<Adjust> adjust;
  size_t output = 0, top = 0;  // where its answer stands in the step that runs
  bool done = false;
};

ModelDrafter::ModelDrafter(Backend& backend, std::unique_ptr<Model> model, const Options& options)
    : backend_(backend), model_(std::move(model)), options_(options), pool_(options.pages) {}

ModelDrafter::~ModelDrafter() {
  give_back();
}

// The middle of those probabilities.
double ModelDrafter::chance(int32_t confidence) const {
  const auto at = static_cast<size_t>(confidence);
  return ((at > 0 ? kSure[at - 1] : 0) + (at < kSure.size() ? kSure[at] : 1)) / 2;
}

double ModelDrafter::seconds(int32_t rows) const {
  return rows > 0 && costs_.knows(rows) ? prices_.seconds(rows).value_or(0) : 0;
}

bool ModelDrafter::give_back() {
  if (!model_) return false;
  backend_.close(model_->id());
  model_.reset();
  cached_.clear();
  return true;
}

void ModelDrafter::forget(RequestId sequence) {
  const auto found = cached_.find(sequence);
  if (found == cached_.end()) return;
  for (const Page page : found->second.pages) pool_.release(page);
  cached_.erase(found);
}

// Leading tokens of the text whose keys and values are in the cache.
int32_t ModelDrafter::valid(const Cached& cached, std::span<const Token> tokens) {
  auto at = static_cast<size_t>(cached.base);
  for (size_t i = 0; i < cached.drafts.size() && at < tokens.size() && tokens[at] == cached.drafts[i]; ++i) ++at;
  return static_cast<int32_t>(at);
}

int32_t ModelDrafter::lag(RequestId sequence, std::span<const Token> tokens) const {
  const auto found = cached_.find(sequence);
  return static_cast<int32_t>(tokens.size()) - (found == cached_.end() ? 0 : valid(found->second, tokens));
}

// Rewinds to what is right and takes pages for the whole draft; false: there are none.
bool ModelDrafter::seat(const DraftTask& task) {
  Cached& cached = cached_[task.sequence];
  // The last token is always computed: what follows it is wanted.
  cached.base = std::min(valid(cached, task.tokens), static_cast<int32_t>(task.tokens.size()) - 1);
  cached.drafts.clear();
  // The target may have ids that pad its table beyond this model's, and a client may send or bias them.
  const auto unseen = task.tokens.subspan(static_cast<size_t>(cached.base));
  if (!std::all_of(unseen.begin(), unseen.end(), [&](Token token) { return knows(token); })) return false;
  const int32_t page_tokens = backend_.page_tokens();
  const auto tokens = static_cast<int32_t>(task.tokens.size()) + task.length;
  const int32_t missing = (tokens + page_tokens - 1) / page_tokens - static_cast<int32_t>(cached.pages.size());
  if (missing > pool_.free()) return false;
  if (missing > 0) cached.pages.reserve(cached.pages.size() + static_cast<size_t>(missing));  // or a page could be lost
  for (int32_t i = 0; i < missing; ++i) cached.pages.push_back(*pool_.allocate());
  return true;
}

Status ModelDrafter::run(Rows& rows) {
  const PageTable table{rows.page_starts, rows.pages};
  const Batch batch{.tokens = rows.tokens,
                    .positions = rows.positions,
                    .starts = rows.starts,
                    .context_lengths = rows.context_lengths,
                    .groups = {&table, 1},
                    .copies = {},
                    .outputs = rows.outputs};
  rows.chosen.resize(rows.choices.size());
  const auto begin = std::chrono::steady_clock::now();
  const Ticket ticket = backend_.submit(model_->id(), batch, rows.choices, [&] { return model_->forward(backend_); });
  MARTLET_TRY(backend_.wait(ticket, rows.chosen, rows.top));
  if (!std::exchange(warm_, true)) return {};
  const int32_t context = rows.mean_context();
  costs_.observe(rows.size(), context, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  prices_ = costs_.line(context);
  return {};
}

// Rows of a step that takes about so many seconds at most.
int32_t ModelDrafter::rows_within(double seconds) const {
  int32_t rows = kLeastCatchUp;
  const auto known_to_fit = [&](int32_t n) { return this->seconds(n) > 0 && this->seconds(n) <= seconds; };
  while (known_to_fit(2 * rows) && rows < options_.max_rows) rows *= 2;
  return std::min(rows, options_.max_rows);
}

// Computes what the cache lacks, but for the last token of each sequence: prompts, and what others than this drafter
// have added since. One step of it; who lacks more is not drafted for yet.
Status ModelDrafter::catch_up(std::span<DraftTask> tasks, std::vector<Active>& active, double seconds) {
  // A little can be computed together with the last token.
  const int32_t together = std::min(kMaxDraft, options_.max_rows / std::max(1, static_cast<int32_t>(active.size())));
  const auto missing = [&](const Active& a) {
    return static_cast<int32_t>(tasks[a.task].tokens.size()) - 1 - a.cached->base;
  };
  const int32_t most = rows_within(seconds);
  Rows rows;
  for (const Active& a : active) {
    if (missing(a) < together || rows.size() == most) continue;
    const int32_t take = std::min(missing(a), most - rows.size());
    Cached& cached = *a.cached;
    rows.add(tasks[a.task].tokens.subspan(static_cast<size_t>(cached.base), static_cast<size_t>(take)), cached.base,
             cached.pages);
    cached.base += take;
  }
  if (rows.size() > 0) MARTLET_TRY(run(rows));
  std::erase_if(active, [&](const Active& a) { return missing(a) >= together; });
  return {};
}

Status ModelDrafter::draft(std::span<DraftTask> tasks, DraftGate gate, double seconds) {
  if (!model_) return {};
  if (options_.intact && !options_.intact())
    return Error{ErrorKind::model, "model_file_changed", "the draft model's file changed while it was open", "--draft"};
  // Where a step fails, or there is no memory for it, nobody knows what the cache holds.
  const auto lose = [&] {
    for (const DraftTask& task : tasks) forget(task.sequence);
  };
  try {
    Status status = draft_together(tasks, gate, seconds);
    if (!status) lose();
    return status;
  } catch (...) {
    lose();
    throw;
  }
}

Status ModelDrafter::draft_together(std::span<DraftTask> tasks, DraftGate gate, double seconds) {
  std::vector<Active> active;
  for (size_t t = 0; t < tasks.size(); ++t)
    if (seat(tasks[t])) active.push_back({t, &cached_[tasks[t].sequence], {}});
  MARTLET_TRY(catch_up(tasks, active, seconds));
  while (!active.empty()) {
    Rows rows;
    for (Active& a : active) {
      const DraftTask& task = tasks[a.task];
      Cached& cached = *a.cached;
      const std::vector<Token>& drafts = task.draft->tokens;
      const auto missing = task.tokens.subspan(static_cast<size_t>(cached.base));
      rows.add(missing.empty() ? std::span(drafts).last(1) : missing,
               missing.empty() ? cached.base + static_cast<int32_t>(drafts.size()) - 1 : cached.base, cached.pages);
      if (missing.empty()) cached.drafts.push_back(drafts.back());
      cached.base += static_cast<int32_t>(missing.size());
      Choice choice = task.sampler->after(drafts, a.adjust);
      const auto unknown = [&](const Adjust& adjust) { return !knows(adjust.token); };
      if (std::any_of(choice.adjust.begin(), choice.adjust.end(), unknown)) {
        std::vector<Adjust> known(choice.adjust.begin(), choice.adjust.end());
        std::erase_if(known, unknown);
        a.adjust = std::move(known);
        choice.adjust = a.adjust;
      }
      choice.top = draws(*task.sampler) ? kBest : 0;
      a.top = rows.top.size();
      a.output = rows.add_output(choice);
    }
    MARTLET_TRY(run(rows));
    for (Active& a : active) choose(tasks[a.task], a, rows, gate);
    std::erase_if(active, [](const Active& a) { return a.done; });
  }
  return {};
}

void ModelDrafter::choose(const DraftTask& task, Active& active, const Rows& rows, DraftGate gate) {
  const Chosen& chosen = rows.chosen[active.output];
  const Choice& choice = rows.choices[active.output];
  active.done = true;
  if (chosen.numeric_error || chosen.token < 0) return;
  Draft& draft = *task.draft;
  const auto position = static_cast<int32_t>(draft.tokens.size());
  std::vector<TokenProbability> q;
  double sure = std::exp(chosen.logprob);
  if (draws(*task.sampler)) {
    q = draft_distribution(std::span(rows.top).subspan(active.top, kBest), choice);
    if (q.empty()) return;
    sure = std::max_element(q.begin(), q.end(), [](const auto& a, const auto& b) {
             return a.probability < b.probability;
           })->probability;
  }
  const int32_t confidence = confidence_of(sure);
  const Verdict verdict = gate(active.task, position, confidence);
  if (verdict == Verdict::drop) return;
  const Token token =
      q.empty() ? chosen.token : draw(q, uniform(choice.sampling.seed, choice.sampling.draw, Stream::draft));
  draft.add(token, confidence, std::move(q));
  active.done = verdict == Verdict::last || position + 1 >= task.length;
}

}  // namespace martlet
