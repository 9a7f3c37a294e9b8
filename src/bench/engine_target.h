#pragma once

// Martlet in this process, without HTTP: what the engine itself gives. Never in one table with another engine.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/target.h"
#include "martlet/engine.h"

namespace martlet::bench {

// How the program, which knows templates and tokenizers, makes an engine and speaks to it.
struct LocalModel {
  std::unique_ptr<Engine> engine;
  std::function<Result<std::vector<Token>>(const std::string& prompt)> encode;
  std::function<std::string(std::span<const Token>)> decode;
  std::vector<Token> stop_tokens;
};

class EngineTarget : public Target {
 public:
  using Open = std::function<Result<LocalModel>()>;
  EngineTarget(EngineInfo info, Open open) : Target(std::move(info)), open_(std::move(open)) {}
  Result<std::unique_ptr<Instance>> start(const StopAsked& stop) override;

 private:
  Open open_;
};

}  // namespace martlet::bench
