#include "draft/drafting.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>

namespace martlet {
namespace {

using Clock = std::chrono::steady_clock;
using Mode = Speculation::Mode;

constexpr int32_t kProbeSteps = 64;
constexpr double kProbeLoss = 0.01;
// Tokens over which the cost of bringing a drafter up to date is spread, where the answer has so many left.
constexpr double kEntryTokens = 64;
constexpr int32_t kLongestPause = 1024;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Drawing drawing(const DraftSeat& seat) {
  return seat.sampler->greedy() ? Drawing::greedy : Drawing::drawn;
}

int32_t wanted(const DraftState& state) {
  switch (state.rule.mode) {
    case Mode::off:
      return 0;
    case Mode::window:
      return state.window.length();
    case Mode::fixed:
      return state.rule.length;
    case Mode::automatic:
      return kMaxDraft;
  }
  return 0;
}

}  // namespace

struct Drafting::Seating {
  // What is kept of a task beside it.
  struct Course {
    size_t seat = 0;
    bool runs_free = false;  // its length is not the plan's to choose
    int32_t planned = 0;     // its drafts that the plan counts on
    double survival = 1;     // of its draft so far
  };

  std::span<const DraftSeat> seats;
  int32_t rows, spare;
  StepSeconds step_seconds;
  std::vector<DraftTask> tasks = {};
  std::vector<Course> courses = {};  // [task]
  int32_t admitted = 0;              // drafts that the gate has let through
  int32_t planned = 0;               // drafts that the plan counts on, all sequences together
  int32_t probes = 0;                // sequences that are drafted for though it is not expected to pay
  double rate = 0;                   // tokens a second that the plan expects
  double draft_price = 0;            // seconds of one more token for one sequence
  double draft_seconds = 0;

  double price_of_rows(int32_t drafts, int32_t more) const {
    return std::max(0.0, step_seconds(rows + drafts + more) - step_seconds(rows + drafts));
  }
  // Of `more` drafts of a task from `position` on. Where kernels take rows by the dozen, the first row of a dozen is
  // dear. Among several sequences those that the plan counts on share its price, or whoever is asked first would bear
  // it alone; what goes beyond the plan comes on top of it. Who shared a row and is left alone on it is seen
  // afterwards, by choose_lengths().
  double price_of_drafts(size_t task, int32_t position, int32_t more) const {
    if (tasks.size() < 2) return price_of_rows(admitted, more);
    const int32_t shared = std::clamp(courses[task].planned - position, 0, more);
    const double beyond = price_of_rows(std::max(admitted, planned), more - shared);
    return shared == 0 ? beyond : beyond + price_of_rows(0, planned) * shared / planned;
  }
  void add(size_t seat, int32_t length, bool runs_free, int32_t planned_length = 0) {
    const DraftSeat& s = seats[seat];
    length = std::min({length, s.room, spare});
    if (length <= 0) return;
    tasks.push_back({s.id, s.tokens, s.sampler, length, &s.state->draft, s.scope});
    courses.push_back({seat, runs_free, planned_length});
  }
  const DraftSeat& seat(size_t task) const { return seats[courses[task].seat]; }
};

void Drafting::propose(std::span<const DraftSeat> seats, int32_t rows, int32_t spare, StepSeconds seconds) {
  for (const DraftSeat& seat : seats) {
    seat.state->draft.clear();
    seat.state->level = seat.state->surprise.level();
    seat.state->off = false;
    seat.state->price = 0;
  }
  if (pause_ > 0) {
    --pause_;
    return;
  }
  Seating seating{.seats = seats, .rows = rows, .spare = spare, .step_seconds = seconds};
  const double step = seconds(rows);
  probe_seconds_ = std::min(probe_seconds_ + kProbeLoss * step, kProbeSteps * kProbeLoss * step);
  if (drafter_->free()) {
    for (size_t s = 0; s < seats.size(); ++s)
      seating.add(s, wanted(*seats[s].state), seats[s].state->rule.mode != Mode::automatic);
    draft(seating, false);
    choose_lengths(seating, false);
  } else {
    plan(seating);
    draft(seating, true);
    choose_lengths(seating, true);
  }
  note(seating);
}

// Lengths before anything of the drafts is known. Whoever is to be drafted for at all may go on for as long as gate()
// finds it worth its price.
void Drafting::plan(Seating& seating) {
  std::vector<size_t> automatic;
  int32_t fixed = 0;
  for (size_t s = 0; s < seating.seats.size(); ++s) {
    const DraftState& state = *seating.seats[s].state;
    if (state.rule.mode == Mode::automatic) {
      automatic.push_back(s);
      continue;
    }
    const size_t before = seating.tasks.size();
    seating.add(s, wanted(state), true);
    if (seating.tasks.size() > before) fixed += seating.tasks.back().length;
  }
  seating.admitted = fixed;
  if (automatic.empty() || seating.step_seconds(seating.rows) <= 0) return;

  std::vector<DraftCandidate> candidates;
  double computed = 0;  // tokens for one that is verified, on average over the sequences
  for (const size_t s : automatic) {
    const DraftSeat& seat = seating.seats[s];
    DraftCandidate& candidate = candidates.emplace_back();
    double survival = 1;
    for (int32_t j = 0; j < std::min({kMaxDraft, seat.room, seating.spare}); ++j) {
      survival *=
          std::min(1.0, seat.state->departure.factor() * acceptance_.expected(drawing(seat), seat.state->level, j));
      candidate.survival.push_back(survival);
    }
    const int32_t lag = drafter_->lag(seat.id, seat.tokens);
    candidate.entry =
        std::max(0.0, drafter_->seconds(lag) - drafter_->seconds(1)) / std::clamp<double>(seat.room, 1, kEntryTokens);
    candidate.last = seat.state->last;
    computed += acceptance_.computed(drawing(seat), seat.state->level) / static_cast<double>(automatic.size());
  }
  const auto verify = [&](int32_t drafts) { return seating.step_seconds(seating.rows + fixed + drafts); };
  const auto draft_time = [&](int32_t sequences) { return computed * drafter_->seconds(sequences); };
  const Allocation allocation =
      allocate_drafts(candidates, {static_cast<int32_t>(seating.seats.size()), verify, draft_time});
  seating.rate = allocation.rate;
  seating.planned = std::accumulate(allocation.lengths.begin(), allocation.lengths.end(), fixed);
  const auto drafting =
      std::max<int32_t>(1, static_cast<int32_t>(std::count_if(allocation.lengths.begin(), allocation.lengths.end(),
                                                              [](int32_t n) { return n > 0; })));
  seating.draft_price = draft_time(drafting) / drafting;
  // What drafting costs is found out on one sequence: with others all would have their prompts read for nothing.
  const bool unmeasured = drafter_->seconds(1) <= 0;
  for (size_t c = 0; c < automatic.size(); ++c) {
    const DraftSeat& seat = seating.seats[automatic[c]];
    if (unmeasured && !seating.tasks.empty()) break;
    if (allocation.lengths[c] > 0) {
      seating.add(automatic[c], kMaxDraft, false, allocation.lengths[c]);
    } else if (worth_a_probe(seating, seat)) {
      seating.add(automatic[c], 1, true);
    }
    seat.state->last = allocation.lengths[c];
  }
}

// Sequences share what may be lost to probes: sixteen that each lost one percent for all would lose sixteen. Answers
// may be too short for any of them to wait for its turn; then what counts is how long nobody was drafted for.
bool Drafting::worth_a_probe(Seating& seating, const DraftSeat& seat) {
  if (std::max(seat.state->idle, idle_) < kProbeSteps || std::min(seat.room, seating.spare) <= 0) return false;
  const double loss = seating.price_of_rows(seating.probes, 1) + drafter_->seconds(1) +
                      drafter_->seconds(drafter_->lag(seat.id, seat.tokens));
  if (loss >= probe_seconds_) return false;
  probe_seconds_ -= loss;
  ++seating.probes;
  return true;
}

// What a token is worth: the tokens a second that it is expected to add against those that the plan makes anyway.
Verdict Drafting::gate(Seating& seating, size_t task, int32_t position, int32_t confidence) {
  const DraftSeat& seat = seating.seat(task);
  if (seating.courses[task].runs_free) {
    acceptance_.add_computed(drawing(seat), seat.state->level, true);
    return Verdict::more;
  }
  const double factor = seat.state->departure.factor();
  const double survival =
      seating.courses[task].survival * std::min(1.0, factor * acceptance_.given(drawing(seat), confidence));
  const bool worth_verifying = pays(seating, task, position, survival, 0);
  acceptance_.add_computed(drawing(seat), seat.state->level, worth_verifying);
  if (!worth_verifying) return Verdict::drop;
  seating.courses[task].survival = survival;
  ++seating.admitted;
  if (position + 1 >= seating.tasks[task].length) return Verdict::last;
  const double next =
      survival * std::min(1.0, factor * acceptance_.expected(drawing(seat), seat.state->level, position + 1));
  return pays(seating, task, position + 1, next, seating.draft_price) ? Verdict::more : Verdict::last;
}

// Whether the token at `position`, or it and some that follow, adds as many tokens as its seconds are worth. Not by
// itself alone: the price of a row is not smooth where kernels take rows by the dozen.
bool Drafting::pays(const Seating& seating, size_t task, int32_t position, double survival, double drafting) const {
  const DraftSeat& seat = seating.seat(task);
  const double factor = seat.state->departure.factor();
  double tokens = 0;
  for (int32_t more = 1; position + more <= seating.tasks[task].length; ++more) {
    tokens += survival;
    const double price = seating.price_of_drafts(task, position, more) + drafting;
    if (tokens >= seating.rate * price) return true;
    survival *= std::min(1.0, factor * acceptance_.expected(drawing(seat), seat.state->level, position + more));
    drafting += seating.draft_price;
  }
  return false;
}

void Drafting::draft(Seating& seating, bool gated) {
  if (seating.tasks.empty()) return;
  const Clock::time_point begin = Clock::now();
  Status status;
  try {
    status = drafter_->draft(
        seating.tasks,
        [&](size_t task, int32_t position, int32_t confidence) {
          return gated ? gate(seating, task, position, confidence) : Verdict::more;
        },
        seating.step_seconds(seating.rows));
  } catch (const std::exception&) {
    status = Error{ErrorKind::internal, "draft_failed", "the drafter threw", ""};
  }
  seating.draft_seconds = seconds_since(begin);
  stats_.draft_seconds += seating.draft_seconds;
  for (const DraftTask& task : seating.tasks) {
    if (!status) task.draft->clear();
    check(*task.draft);
    task.draft->cut(static_cast<size_t>(task.length));
  }
  if (status) {
    failures_ = 0;
    return;
  }
  ++stats_.failures;
  pause_ = std::min(1 << std::min(failures_++, 20), kLongestPause);
  // Want of memory may be over by the next step.
  const bool lasting = status.error().kind == ErrorKind::memory && failures_ > 1;
  if (lasting || status.error().kind == ErrorKind::model) give_back();
}

// A drafter is not trusted: a token that is none, or a distribution that the token was not drawn from, ends the draft.
void Drafting::check(Draft& draft) const {
  const size_t size = std::min({draft.tokens.size(), draft.q.size(), draft.confidence.size()});
  size_t sound = 0;
  for (; sound < size; ++sound) {
    const Token token = draft.tokens[sound];
    const std::vector<TokenProbability>& q = draft.q[sound];
    const int32_t confidence = draft.confidence[sound];
    const auto is_token = [&](const TokenProbability& t) { return t.token == token && t.probability > 0; };
    if (token < 0 || token >= vocabulary_ || confidence < 0 || confidence >= kConfidences) break;
    if (!q.empty() && std::none_of(q.begin(), q.end(), is_token)) break;
  }
  draft.tokens.resize(sound);
  draft.q.resize(sound);
  draft.confidence.resize(sound);
}

// Lengths of drafts that are there already and cost nothing more but their verification. Those that were `planned` stay
// unless fewer are better; and those that were drawn at random stay in any case: how sure the drafter is of a token
// hangs on which tokens came before it, so to cut by it would bend the distribution.
void Drafting::choose_lengths(Seating& seating, bool planned) {
  std::vector<size_t> automatic;
  std::vector<DraftCandidate> candidates;
  int32_t fixed = 0;
  for (size_t t = 0; t < seating.tasks.size(); ++t) {
    const DraftSeat& seat = seating.seat(t);
    const Draft& draft = seat.state->draft;
    const auto size = static_cast<int32_t>(draft.tokens.size());
    const bool drawn = std::any_of(draft.q.begin(), draft.q.end(), [](const auto& q) { return !q.empty(); });
    if (seating.courses[t].runs_free || drawn) {
      fixed += size;
      continue;
    }
    DraftCandidate& candidate = candidates.emplace_back();
    if (planned) candidate.last = size;
    double survival = 1;
    for (const int32_t confidence : draft.confidence) {
      survival *= std::min(1.0, seat.state->departure.factor() * acceptance_.given(drawing(seat), confidence));
      candidate.survival.push_back(survival);
    }
    automatic.push_back(t);
  }
  if (automatic.empty()) return;
  const auto verify = [&](int32_t drafts) { return seating.step_seconds(seating.rows + fixed + drafts); };
  const auto nothing = [](int32_t) { return 0.0; };
  Allocation allocation;
  allocation.lengths.assign(candidates.size(), 0);
  if (seating.step_seconds(seating.rows) > 0)
    allocation = allocate_drafts(candidates, {static_cast<int32_t>(seating.seats.size()), verify, nothing});
  for (size_t c = 0; c < automatic.size(); ++c) {
    const DraftSeat& seat = seating.seat(automatic[c]);
    const bool drafted = !seat.state->draft.tokens.empty();
    int32_t length = allocation.lengths[c];
    if (length == 0 && drafted && worth_a_probe(seating, seat)) length = 1;
    if (!planned) seat.state->last = length;
    seat.state->off = drafted && length == 0;
    seat.state->draft.cut(static_cast<size_t>(length));
  }
}

void Drafting::note(Seating& seating) {
  int32_t drafts = 0;
  for (const DraftSeat& seat : seating.seats) {
    DraftState& state = *seat.state;
    const auto length = static_cast<int32_t>(state.draft.tokens.size());
    drafts += length;
    state.idle = length > 0 ? 0 : state.idle + 1;
    if (state.rule.mode == Mode::window) state.off = state.window.length() == 0;
    if (state.rule.mode == Mode::automatic && surprises()) state.off = length == 0;
    if (state.rule.mode != Mode::off) ++stats_.decisions[static_cast<size_t>(length)];
  }
  idle_ = drafts > 0 ? 0 : std::min(idle_ + 1, kProbeSteps);
  const double alone = seating.step_seconds(seating.rows);
  price_ = alone / std::max<double>(1, static_cast<double>(seating.seats.size()));
  const double verification =
      drafts > 0 ? std::max(0.0, seating.step_seconds(seating.rows + drafts) - alone) / drafts : 0;
  for (size_t t = 0; t < seating.tasks.size(); ++t)
    seating.seat(t).state->price = seating.draft_seconds / static_cast<double>(seating.tasks.size());
  for (const DraftSeat& seat : seating.seats) {
    const size_t length = seat.state->draft.tokens.size();
    seat.state->price += verification * static_cast<double>(length);
    stats_.price_seconds[length] += seat.state->price;
  }
}

DraftCounts Drafting::verified(const DraftSeat& seat, std::span<const Token> chosen, double step_seconds) {
  DraftState& state = *seat.state;
  const Draft& draft = state.draft;
  const size_t judged = std::min(draft.tokens.size(), chosen.size());
  DraftCounts counts{.price_seconds = state.price, .off_seconds = state.off ? step_seconds : 0};
  for (size_t j = 0; j < draft.tokens.size(); ++j) counts.drafted[j] = 1;
  for (size_t j = 0; j < judged; ++j) {
    const bool right = chosen[j] == draft.tokens[j];
    acceptance_.add(drawing(seat), state.level, static_cast<int32_t>(j), draft.confidence[j], right);
    state.departure.add(acceptance_.given(drawing(seat), draft.confidence[j]), right);
    counts.accepted[j] = right ? 1 : 0;
  }
  const auto accepted = static_cast<int32_t>(counts.accepted_tokens());
  stats_.drafts += counts;
  stats_.saved_seconds += accepted * price_;
  if (state.rule.mode == Mode::window)
    state.window.verified(static_cast<int32_t>(draft.tokens.size()), accepted, static_cast<int32_t>(chosen.size()));
  return counts;
}

bool Drafting::give_back() {
  const bool gave = drafter_->give_back();
  stats_.given_back |= gave;
  return gave;
}

}  // namespace martlet
