#pragma once

// The output-quality gate: a fast engine that answers wrongly must be seen. Each token of an answer is looked at as the
// next one after the prompt and the answer so far (teacher forcing) by the float32 path of the same model.

#include <functional>
#include <future>
#include <map>
#include <string>
#include <vector>

#include "bench/result.h"
#include "martlet/engine.h"

namespace martlet::bench {

// A token is good when it is the most likely one or within this of it, in natural logarithms.
inline constexpr double kQualityMargin = 0.7;

// The tokens of a chat of one prompt and its answer.
struct Encoded {
  std::vector<Token> tokens;
  size_t answer = 0;  // where the answer begins
};
using EncodeAnswer = std::function<Result<Encoded>(const std::string& prompt, const std::string& answer)>;

class Judge {
 public:
  // `engine` computes in float32 and must outlive the judge.
  Judge(Engine& engine, EncodeAnswer encode) : engine_(engine), encode_(std::move(encode)) {}
  // Hands an answer to the engine, which looks at several together. The same answer to the same prompt is looked at
  // once. Of an answer that is longer than the engine's context the beginning is judged. Errors: those of the engine.
  Status prepare(const std::string& prompt, const std::string& answer);
  // Prepares it, unless that is done, and waits.
  Result<Quality> judge(const std::string& prompt, const std::string& answer);

 private:
  struct Verdict {
    Quality quality;
    std::future<Result<Quality>> pending;  // invalid once `quality` is known
  };
  Result<Verdict*> verdict(const std::string& prompt, const std::string& answer);
  Status submit(Encoded encoded, Verdict& verdict);

  Engine& engine_;
  EncodeAnswer encode_;
  std::map<std::pair<std::string, std::string>, Verdict> verdicts_;
};

// Fills in the quality of every run that was answered; `prompts` are those that the measurements count. `progress` is
// called before each answer with how many are done and how many there are. Stops early when `stop` says so: the runs
// whose answers are not all judged by then, or when an error comes, have no quality.
Status judge_runs(std::vector<Run>& runs, const std::vector<std::string>& prompts, Judge& judge,
                  const std::function<void(size_t done, size_t total)>& progress, const std::function<bool()>& stop);

}  // namespace martlet::bench
