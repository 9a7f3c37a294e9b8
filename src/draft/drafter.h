#pragma once

// Who guesses the next tokens of sequences. Nothing that a drafter does can change a text: its drafts are verified.

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/batch.h"
#include "base/error.h"
#include "base/function_ref.h"
#include "martlet/request.h"
#include "martlet/speculation.h"
#include "sample/sampler.h"

namespace martlet {

// The tokens drafted for one sequence in one step.
struct Draft {
  std::vector<Token> tokens;
  // Of each token: the distribution that it was drawn from, or empty where it was not drawn at random.
  std::vector<std::vector<TokenProbability>> q;
  // Of each token, 0 .. kConfidences - 1: how sure the drafter was. Known before the token was chosen (see DraftGate).
  std::vector<int32_t> confidence;

  void add(Token token, int32_t how_sure, std::vector<TokenProbability> drawn_from = {}) {
    tokens.push_back(token);
    q.push_back(std::move(drawn_from));
    confidence.push_back(how_sure);
  }
  void clear() {
    tokens.clear();
    q.clear();
    confidence.clear();
  }
  void cut(size_t length) {
    if (length >= tokens.size()) return;
    tokens.resize(length);
    q.resize(length);
    confidence.resize(length);
  }
};

inline constexpr int32_t kConfidences = 12;

struct DraftTask {
  RequestId sequence;
  std::span<const Token> tokens;  // prompt and output so far; between calls it only grows
  const Sampler* sampler;         // of the sequence, for the token that follows
  int32_t length;                 // tokens wanted at most, 1 .. kMaxDraft
  Draft* draft;                   // empty at first
  int64_t scope = 0;              // who must not learn from others' texts
};

// What happens to a token that a drafter is about to choose, and to the draft after it.
enum class Verdict { drop, last, more };
// Asked before each token of a draft is chosen, given how sure the drafter is. `task` is its index; `position` that of
// the token in the draft. The answer hangs on nothing but what is known before the token is drawn: dropping a token for
// what it is would bend the distribution of the text.
using DraftGate = FunctionRef<Verdict(size_t task, int32_t position, int32_t confidence)>;

class Drafter {
 public:
  virtual ~Drafter() = default;

  virtual std::string_view name() const = 0;  // "ngram", "model"
  // Drafting costs nothing to speak of: every length can be tried and the confidences are known beforehand.
  virtual bool free() const = 0;
  // What the drafter itself makes of a confidence: the chance that the token is right, 0 < chance < 1. How often it is
  // right is learnt; this only says how confidences that were not seen yet compare with those that were.
  virtual double chance(int32_t) const { return 0.5; }
  // Tokens of a sequence that must be computed before it can be drafted for.
  virtual int32_t lag(RequestId, std::span<const Token>) const { return 0; }
  // Measured seconds of computing `rows` tokens at once; 0: not known yet, or nothing.
  virtual double seconds(int32_t) const { return 0; }
  // Fills the drafts. An error, or an exception, means no drafts in this step; after one of ErrorKind::model, or two of
  // ErrorKind::memory in a row, the drafter is asked to give back what it holds. Tokens are not trusted. `seconds`:
  // what others can wait for tokens that must be computed before a sequence can be drafted for; who has more of them
  // goes on in the next step.
  virtual Status draft(std::span<DraftTask> tasks, DraftGate gate, double seconds) = 0;
  virtual void forget(RequestId sequence) = 0;
  // A sequence came to its end. Its `answer` may be drafted from later, for those of the same scope.
  virtual void keep(int64_t /*scope*/, std::span<const Token> /*answer*/) {}
  // Frees what the drafter holds of memory; it drafts no more. False: it holds nothing worth freeing.
  virtual bool give_back() { return false; }
};

}  // namespace martlet
