#include "bench/roofline.h"

#include <gtest/gtest.h>

namespace martlet::bench {
namespace {

// Two answers of 11 tokens to prompts of 20, at once: 10 ms a token, both done after 0.5 s.
Run two_answers() {
  Run run;
  run.engine = "b";
  Measurement m;
  m.first_token = 0.4;
  m.last_token = 0.5;
  m.output_tokens = 11;
  m.prompt_tokens = 20;
  run.requests = {m, m, Measurement{}};  // the third failed
  return run;
}

RunFile machine() {
  RunFile file;
  file.machine.bandwidth_gb_s = 10;
  file.machine.int8_peak_gops = 100;
  file.matrices = {90e6, 10e6};
  file.engines = {{"a", "", "", 1, "", true}, {"b", "", "", 50e6, "", true}};
  return file;
}

TEST(Roofline, SharesFollowTheirDefinitions) {
  bench::Run run = two_answers();
  note_shares(machine(), run);
  EXPECT_DOUBLE_EQ(run.of_bandwidth, 50e6 / 0.01 / 10e9);
  // (20 + 10) tokens through the layers, 11 through the head, twice, in half a second.
  EXPECT_NEAR(run.of_peak, 2 * 2 * (30 * 90e6 + 11 * 10e6) / 0.5 / 100e9, 1e-12);
  run.instances = 3;
  run.requests[0].cached_tokens = 20;
  note_shares(machine(), run);
  EXPECT_DOUBLE_EQ(run.of_bandwidth, 3 * 50e6 / 0.01 / 10e9) << "each process reads the weights";
  EXPECT_NEAR(run.of_peak, 2 * ((10 + 30) * 90e6 + 22 * 10e6) / 0.5 / 100e9, 1e-12) << "what came from a cache";
}

TEST(Roofline, PromptsCountAlsoWhereTheEngineDoesNotCountThem) {
  bench::Run counted = two_answers(), silent = two_answers();
  for (Measurement& m : silent.requests) m.prompt_tokens = 0, m.prompt = 1;
  RunFile file = machine();
  note_shares(file, silent);
  EXPECT_EQ(silent.of_peak, 0) << "nobody knows how long the prompts were";
  file.prompt_tokens = {7, 20};
  note_shares(file, counted);
  note_shares(file, silent);
  EXPECT_DOUBLE_EQ(silent.of_peak, counted.of_peak);
  silent.requests[1].prompt = 2;
  silent.of_peak = 0;
  note_shares(file, silent);
  EXPECT_EQ(silent.of_peak, 0) << "one of them is not known";
}

TEST(Roofline, OnlyWhatComputesOnThisProcessorHasShares) {
  bench::Run run = two_answers();
  RunFile file = machine();
  file.engines[1].on_processor = false;
  note_shares(file, run);
  EXPECT_EQ(run.of_bandwidth, 0);
  EXPECT_EQ(run.of_peak, 0);
  run.engine = "nobody";
  note_shares(machine(), run);
  EXPECT_EQ(run.of_peak, 0);
}

TEST(Roofline, WhatIsNotKnownIsZero) {
  bench::Run run = two_answers();
  note_shares(RunFile{}, run);
  EXPECT_EQ(run.of_bandwidth, 0);
  EXPECT_EQ(run.of_peak, 0);
  run.requests.clear();
  note_shares(machine(), run);
  EXPECT_EQ(run.of_bandwidth, 0);
  EXPECT_EQ(run.of_peak, 0);
}

}  // namespace
}  // namespace martlet::bench
