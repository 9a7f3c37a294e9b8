#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "backend/cost_table.h"
#include "cache/page_pool.h"
#include "draft/drafter.h"
#include "model/model.h"

namespace martlet {

// Drafts with a smaller model of the same vocabulary, for all sequences together: one step of it a token. Its cache
// follows the sequences; it is brought up to date when a sequence is drafted for, and goes back to the last token that
// was right by forgetting what came after it.
class ModelDrafter final : public Drafter {
 public:
  struct Options {
    int32_t pages = 0;                  // of its cache
    int32_t max_rows = 0;               // of one step
    std::function<bool()> intact = {};  // the model's file is still what was opened; empty: it needs no asking
  };
  // `backend` outlives the drafter; `model` is open on it.
  ModelDrafter(Backend& backend, std::unique_ptr<Model> model, const Options& options);
  ~ModelDrafter() override;

  std::string_view name() const override { return "model"; }
  bool free() const override { return false; }
  double chance(int32_t confidence) const override;
  int32_t lag(RequestId sequence, std::span<const Token> tokens) const override;
  double seconds(int32_t rows) const override;
  Status draft(std::span<DraftTask> tasks, DraftGate gate, double seconds) override;
  void forget(RequestId sequence) override;
  bool give_back() override;

 private:
  // What lies in the cache: `base` tokens of the text, then drafts that may turn out to be the text.
  struct Cached {
    std::vector<Page> pages;
    int32_t base = 0;
    std::vector<Token> drafts;
  };
  struct Rows;    // one step
  struct Active;  // a task that still drafts

  static int32_t valid(const Cached& cached, std::span<const Token> tokens);
  bool knows(Token token) const { return token < model_->hyperparameters().vocabulary; }
  bool seat(const DraftTask& task);
  Status draft_together(std::span<DraftTask> tasks, DraftGate gate, double seconds);
  Status catch_up(std::span<DraftTask> tasks, std::vector<Active>& active, double seconds);
  int32_t rows_within(double seconds) const;
  Status run(Rows& rows);
  void choose(const DraftTask& task, Active& active, const Rows& rows, DraftGate gate);

  Backend& backend_;
  std::unique_ptr<Model> model_;
  const Options options_;
  PagePool pool_;
  bool warm_ = false;  // it has run: the first step brings its pages in and says nothing of what others cost
  CostTable costs_;
  CostTable::Line prices_;  // at the context of the last step
  std::unordered_map<RequestId, Cached> cached_;
};

}  // namespace martlet
