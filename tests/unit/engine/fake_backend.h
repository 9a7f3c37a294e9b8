#pragma once

// A backend without arithmetic: a "key" is a hash of token and position, written into its page, and what a row chooses
// is a hash over all keys that its page table leads to. A page that was mixed up, freed too early or never written
// shows at once as a wrong token, and expected_token() says what is right from the tokens alone.

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.h"
#include "base/checked.h"
#include "base/out_of_memory.h"
#include "model/model.h"

namespace martlet {

inline constexpr int32_t kFakeVocabulary = 1000;

inline uint64_t fake_mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9E3779B97F4A7C15u;
  return state ^ (state >> 29);
}
inline uint64_t fake_key(Token token, int32_t position) {
  return fake_mix(static_cast<uint64_t>(token) + 1, static_cast<uint64_t>(position) + 7);
}
inline Token expected_token(std::span<const Token> tokens) {
  uint64_t state = 1;
  for (size_t i = 0; i < tokens.size(); ++i) state = fake_mix(state, fake_key(tokens[i], static_cast<int32_t>(i)));
  return static_cast<Token>(state % kFakeVocabulary);
}
inline std::vector<Token> expected_output(std::vector<Token> tokens, int32_t count) {
  const size_t prompt = tokens.size();
  for (int32_t i = 0; i < count; ++i) tokens.push_back(expected_token(tokens));
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end()};
}

// What tests turn and read while the engine's thread runs.
struct FakeControls {
  std::atomic<bool> fail_next_step{false}, lose_device{false};
  std::atomic<int32_t> starved_steps{0};  // so many find no memory
  std::atomic<Token> poison{-1};          // a row of this token writes a key that makes every reader's logits NaN
  std::atomic<int> step_milliseconds{0};
  std::atomic<bool> weights_intact{true};
  std::atomic<int32_t> largest_step{0};
  std::optional<DeviceMemory> device_memory;  // of a device of its own, or none
  int64_t copy_bytes = 0;                     // that it wants of each tensor
  StepLimits limits;                          // that it was told
  int64_t spare = -1;                         // likewise; -1: nothing
  std::string remark;
  std::mutex mutex;
  std::set<Token> seen;  // tokens of all rows that ran

  bool saw(Token token) {
    const std::lock_guard lock(mutex);
    return seen.contains(token);
  }
};

class FakeModel final : public Model {
 public:
  Outputs forward(Backend&) const override { return {}; }
};

class FakeBackend final : public Backend {
 public:
  // With `states` slots the model is recurrent: what a row chooses follows from states alone.
  FakeBackend(int32_t page_tokens, int32_t pages, std::shared_ptr<FakeControls> controls, int32_t states = 0)
      : page_tokens_(page_tokens),
        states_(static_cast<size_t>(states)),
        keys_(static_cast<size_t>(page_tokens) * static_cast<size_t>(pages)),
        controls_(controls) {}

  std::optional<DeviceMemory> device_memory() const override { return controls_->device_memory; }
  int64_t copy_bytes(const TensorView&) const override { return controls_->copy_bytes; }
  void limit(const StepLimits& limits) override { controls_->limits = limits; }
  void spare(int64_t bytes) override { controls_->spare = bytes; }
  std::string remark() const override { return controls_->remark; }

  std::string_view name() const override { return "fake"; }
  std::string device() const override { return "none"; }
  int32_t page_tokens() const override { return page_tokens_; }
  int32_t max_rows() const override { return 1 << 16; }
  bool keeps(CacheType type) const override { return type != CacheType::fp8; }
  std::optional<int64_t> cache_page_bytes(const CacheGroup& g) const override {
    const Checked heads = Checked(static_cast<uint64_t>(g.layers)) * Checked(static_cast<uint64_t>(g.kv_heads));
    const Checked bytes =
        heads * static_cast<uint64_t>((g.type == CacheType::f16 ? 2 : 1) * (g.key_size + g.value_size) * page_tokens_);
    return bytes.within(uint64_t{1} << 62) ? std::optional<int64_t>(*bytes.get()) : std::nullopt;
  }
  int64_t workspace_bytes(const StepLimits& limits, const StepWidths& widths) const override {
    return 4 * (limits.rows * widths.residual + widths.vocabulary);
  }
  Result<ModelId> open(std::span<const CacheGroup>) override { return ModelId{}; }
  void close(ModelId) override {}
  Result<Weight> upload(ModelId, std::span<const TensorView> stacked, const UploadOptions& options) override {
    for (const TensorView& view : stacked)
      if (!info(view.format).computes) return Error{ErrorKind::model, "unsupported_format", "does not compute", ""};
    if (!options.bias.empty()) ++biases_;
    return Weight{weights_++};
  }

  Ticket submit(ModelId, const Batch& batch, std::span<const Choice> choices, FunctionRef<Outputs()> forward) override {
    owner_ = owner_ == std::thread::id() ? std::this_thread::get_id() : owner_;
    one_thread_ &= owner_ == std::this_thread::get_id();
    forward();
    if (const int ms = controls_->step_milliseconds) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    controls_->largest_step = std::max(controls_->largest_step.load(), batch.rows());
    chosen_.clear();
    top_.clear();
    for (const PageCopy& copy : batch.copies) this->copy(copy);
    for (int32_t s = 0; s < batch.sequences(); ++s) run(batch, s, choices);
    return Ticket{++tickets_};
  }
  Status wait(Ticket, std::span<Chosen> chosen, std::span<TokenLogprob> top) override {
    if (!one_thread_) return Error{ErrorKind::internal, "wrong_thread", "called from two threads", ""};
    if (controls_->lose_device) return Error{ErrorKind::io, "device_error", "injected", ""};
    if (controls_->starved_steps > 0) return --controls_->starved_steps, out_of_memory();
    if (controls_->fail_next_step.exchange(false)) return Error{ErrorKind::internal, "device_error", "injected", ""};
    std::copy(chosen_.begin(), chosen_.end(), chosen.begin());
    std::copy(top_.begin(), top_.end(), top.begin());
    return {};
  }

  void read(const Tensor&, std::span<float>) override {}
  Outputs& outputs(Ticket) override { return outputs_; }
  int64_t page_bytes(ModelId, int32_t) const override { return 8 * page_tokens_; }
  void read_page(ModelId, int32_t, Page, std::span<std::byte>) override {}
  void write_page(ModelId, int32_t, Page, std::span<const std::byte>) override {}
  void discard(ModelId, int32_t, std::span<const Page> pages) override {
    discarded_ = static_cast<int32_t>(pages.size());
    for (const Page page : pages) std::fill_n(keys_.begin() + page * page_tokens_, page_tokens_, kPoison);
  }
  Tensor embed(Weight) override { return {}; }
  Tensor norm(const Tensor&, const Norm&) override { return {}; }
  Tensor linear(const Tensor&, Weight, const Tensor*) override { return {}; }
  Tensor attend(const Tensor&, const Attention& attention) override {
    attentions_.push_back(attention);
    return {};
  }
  Tensor activate(const Tensor&, Activation) override { return {}; }
  Tensor gather_outputs(const Tensor&) override { return {}; }

  int32_t weights_ = 0, biases_ = 0;
  std::atomic<int32_t> discarded_{0};
  std::vector<Attention> attentions_;  // of every attend() so far

 private:
  static constexpr uint64_t kPoison = ~uint64_t{0};

  uint64_t& key(const PageTable& table, int32_t sequence, int32_t position) {
    const auto first = static_cast<size_t>(table.starts[static_cast<size_t>(sequence)]);
    const Page page = table.pages[first + static_cast<size_t>(position / page_tokens_)];
    return keys_[static_cast<size_t>(page) * static_cast<size_t>(page_tokens_) +
                 static_cast<size_t>(position % page_tokens_)];
  }

  // What is not copied must not be read: it becomes a key that no token has.
  void copy(const PageCopy& copy) {
    const auto page = [&](Page p) { return keys_.begin() + std::ptrdiff_t{p} * page_tokens_; };
    std::fill_n(page(copy.to), page_tokens_, uint64_t{0});
    std::copy_n(page(copy.from), copy.tokens, page(copy.to));
  }

  void run_recurrent(const Batch& batch, int32_t s, std::span<const Choice> choices) {
    const Slot from = batch.state_in[static_cast<size_t>(s)];
    uint64_t state = from < 0 ? 1 : states_.at(static_cast<size_t>(from));
    for (int32_t row = batch.starts[static_cast<size_t>(s)]; row < batch.starts[static_cast<size_t>(s) + 1]; ++row) {
      state =
          fake_mix(state, fake_key(batch.tokens[static_cast<size_t>(row)], batch.positions[static_cast<size_t>(row)]));
      for (const StateWrite& write : batch.state_out)
        if (write.row == row) states_.at(static_cast<size_t>(write.slot)) = state;
      if (chosen_.size() < batch.outputs.size() && batch.outputs[chosen_.size()] == row)
        answer(choices[chosen_.size()], state, false);
    }
  }

  void run(const Batch& batch, int32_t s, std::span<const Choice> choices) {
    if (!batch.state_in.empty()) return run_recurrent(batch, s, choices);
    const PageTable& table = batch.groups[0];
    for (int32_t row = batch.starts[static_cast<size_t>(s)]; row < batch.starts[static_cast<size_t>(s) + 1]; ++row) {
      const Token token = batch.tokens[static_cast<size_t>(row)];
      const int32_t position = batch.positions[static_cast<size_t>(row)];
      {
        const std::lock_guard lock(controls_->mutex);
        controls_->seen.insert(token);
      }
      key(table, s, position) = token == controls_->poison ? kPoison : fake_key(token, position);
      if (chosen_.size() < batch.outputs.size() && batch.outputs[chosen_.size()] == row)
        choose(choices[chosen_.size()], table, s, position);
    }
  }

  void choose(const Choice& choice, const PageTable& table, int32_t s, int32_t position) {
    uint64_t state = 1;
    bool poisoned = false;
    for (int32_t p = 0; p <= position; ++p) {
      poisoned |= key(table, s, p) == kPoison;
      state = fake_mix(state, key(table, s, p));
    }
    answer(choice, state, poisoned);
  }

  void answer(const Choice& choice, uint64_t state, bool poisoned) {
    const auto best = static_cast<Token>(state % kFakeVocabulary);
    chosen_.push_back({choice.score >= 0 ? choice.score : best, choice.score == best ? 0.0f : -1.0f, poisoned});
    for (int32_t i = 0; i < choice.top; ++i)
      top_.push_back({(best + i) % kFakeVocabulary, -0.1f * static_cast<float>(i)});
  }

  const int32_t page_tokens_;
  std::vector<uint64_t> states_, keys_;
  std::shared_ptr<FakeControls> controls_;
  std::vector<Chosen> chosen_;
  std::vector<TokenLogprob> top_;
  Outputs outputs_;
  int64_t tickets_ = 0;
  std::thread::id owner_;
  bool one_thread_ = true;
};

}  // namespace martlet
