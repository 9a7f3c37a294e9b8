#pragma once

// The benchmark's contract: which prompts, how many tokens, how many requests. It is part of the program with its text,
// so that two people who name the same version measured the same thing. Any change of contract.json is a new version.

#include <string>
#include <string_view>
#include <vector>

namespace martlet::bench {

struct Contract {
  int version = 0;
  int max_tokens = 0;  // of every answer; decoding is greedy, without a system prompt
  struct {
    int warmup = 0, measured = 0;  // requests, one after another
  } single;
  struct {
    std::vector<int> concurrency;
    int warmup = 0, measured = 0;  // requests of each concurrency
  } sweep;
  struct {
    std::vector<int> instances;
    int warmup_per_instance = 0, offered_at_once = 0;
  } dispatch;
  // Prompts by length, and for speculation by how well they can be guessed.
  std::vector<std::string> short_prompts, medium, long_prompts, predictable, surprising;

  // The twelve of the measurement: short, then medium, then long.
  std::vector<std::string> prompts() const;
};

// The contract of this program.
const Contract& contract();

// Its text to the byte, for a reader who wants to see or hash it.
std::string_view contract_text();

}  // namespace martlet::bench
