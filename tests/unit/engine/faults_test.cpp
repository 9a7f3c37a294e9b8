// Faults A12, D4, D11, D14, D15, G5 and G7 of the fault list at the level of the engine.

#include "engine/harness.h"
#include "engine/manual_engine.h"

namespace martlet {
namespace {

Error refused(FakeEngine& fake, Request request) {
  Result<RequestId> id = fake.engine->submit(std::move(request), std::make_shared<RecordingSink>());
  EXPECT_FALSE(id) << "was taken";
  return id ? Error{} : id.error();
}

TEST(EngineFaults, D4_EmptyPrompt) {
  FakeEngine fake;
  const Error error = refused(fake, greedy({}, 4));
  EXPECT_EQ(error.code, "empty_prompt");
  EXPECT_EQ(error.kind, ErrorKind::request);
}

TEST(EngineFaults, D4_PromptOneTokenTooLongNamesBothCounts) {
  FakeEngine fake;
  std::mt19937 random(1);
  const Error error = refused(fake, greedy(random_tokens(random, 129), 4));
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_NE(error.text.find("129"), std::string::npos);
  EXPECT_NE(error.text.find("128"), std::string::npos);
}

TEST(EngineFaults, D4_PromptThatFillsTheContextEndsWithLength) {
  FakeEngine fake;
  std::mt19937 random(1);
  const auto full = fake.submit(greedy(random_tokens(random, 128), 4));
  EXPECT_EQ(full->wait().reason, FinishReason::length);
  const std::vector<Token> prompt = random_tokens(random, 125);
  const auto nearly = fake.submit(greedy(prompt, 1000));
  EXPECT_EQ(nearly->wait().reason, FinishReason::length);
  EXPECT_EQ(nearly->output(), expected_output(prompt, 3)) << "prompt and output together fill the context, no more";
}

TEST(EngineFaults, BadFieldsAreNamed) {
  FakeEngine fake;
  const auto with = [](auto change) {
    Request request = greedy({1}, 4);
    change(request);
    return request;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(refused(fake, with([](Request& r) { r.prompt = {-1}; })).code, "invalid_token_id");
  EXPECT_EQ(refused(fake, with([](Request& r) { r.prompt = {kFakeVocabulary}; })).where, "prompt");
  EXPECT_EQ(refused(fake, with([](Request& r) { r.stop_tokens = {kFakeVocabulary}; })).where, "stop_tokens");
  EXPECT_EQ(refused(fake, with([](Request& r) { r.max_tokens = 0; })).where, "max_tokens");
  EXPECT_EQ(refused(fake, with([](Request& r) { r.max_tokens = -2; })).where, "max_tokens");
  EXPECT_EQ(refused(fake, with([](Request& r) { r.top_logprobs = 21; })).where, "top_logprobs");
  EXPECT_EQ(refused(fake, with([&](Request& r) { r.sampling.temperature = nan; })).where, "temperature");
}

TEST(EngineFaults, D11_CancelFreesPagesAndTheQueuedDeadNeverRun) {
  FakeEngine fake({.max_sequences = 1});
  fake.controls->step_milliseconds = kUnhurried;
  auto running = std::make_shared<RecordingSink>(), queued = std::make_shared<RecordingSink>();
  const RequestId first = fake.submit(greedy({1, 2, 3}, 120), running);
  running->wait_for_tokens(2);
  const RequestId second = fake.submit(greedy({777, 778}, 4), queued);
  fake.engine->cancel(second);
  EXPECT_EQ(queued->wait().reason, FinishReason::cancelled);
  EXPECT_FALSE(running->finished()) << "only that request";
  fake.engine->cancel(first);
  EXPECT_EQ(running->wait().reason, FinishReason::cancelled);
  fake.engine->cancel(12345);  // unknown: ignored
  fake.stats_when([](const EngineStats& s) { return s.pages_used == 0 && s.running == 0; });
  const auto next = fake.submit(greedy({9}, 2));
  EXPECT_EQ(next->wait().reason, FinishReason::length);
  EXPECT_FALSE(fake.controls->saw(777));
}

TEST(EngineFaults, D14_NumericErrorFailsThatRequestAndCachesNothing) {
  FakeEngine fake({.prefill_chunk = 8});
  fake.controls->poison = 999;
  std::mt19937 random(2);
  std::vector<Token> prompt(40, 1);
  prompt[3] = 999;
  const auto healthy = fake.submit(greedy({5, 6}, 30));
  const auto poisoned = fake.submit(greedy(prompt, 30));
  const Finish finish = poisoned->wait();
  EXPECT_EQ(finish.reason, FinishReason::error);
  EXPECT_EQ(finish.error->code, "numeric_error");
  EXPECT_EQ(finish.error->kind, ErrorKind::internal);
  healthy->wait();
  EXPECT_EQ(healthy->output(), expected_output({5, 6}, 30));
  // Once the device is sound again, nothing of the poisoned prefix is found.
  fake.controls->poison = -1;
  const auto again = fake.submit(greedy(prompt, 5));
  EXPECT_EQ(again->wait().usage.cached_tokens, 0);
  EXPECT_EQ(again->output(), expected_output(prompt, 5));
}

// Where nobody runs, it is the admission of the first in line that finds no memory: everybody waits behind it.
TEST(EngineFaults, G5_WhoeverCannotBeAdmittedForWantOfMemoryEndsBeforeTheOthers) {
  ManualEngine engine({.max_sequences = 1});
  const auto first = engine.submit(greedy({1, 2, 3}, 4)), second = engine.submit(greedy({4, 5}, 4)),
             third = engine.submit(greedy({6, 7}, 4));
  const auto starved = [](RecordingSink& sink) {
    return sink.finished() && sink.wait().error && sink.wait().error->code == "out_of_memory";
  };
  engine.scheduler.starve();
  EXPECT_TRUE(starved(*first));
  EXPECT_FALSE(second->finished());
  engine.step();
  engine.scheduler.starve();
  EXPECT_TRUE(starved(*second)) << "it ran";
  EXPECT_FALSE(third->finished()) << "there is room for it now";
  engine.run();
  EXPECT_EQ(third->output(), expected_output({6, 7}, 4));
  engine.scheduler.starve();  // nobody is there
  EXPECT_EQ(engine.scheduler.pool().used(), 0);
}

TEST(EngineFaults, A12_ChangedFileFailsEverythingAndTakesNothingMore) {
  FakeEngine fake;
  fake.controls->step_milliseconds = kUnhurried;
  const auto running = fake.submit(greedy({1, 2, 3}, 120));
  running->wait_for_tokens(1);
  fake.controls->weights_intact = false;
  const Finish finish = running->wait();
  EXPECT_EQ(finish.reason, FinishReason::error);
  EXPECT_EQ(finish.error->code, "model_file_changed");
  EXPECT_EQ(finish.error->kind, ErrorKind::io);
  const std::vector<Token> output = running->output();
  EXPECT_EQ(output, expected_output({1, 2, 3}, static_cast<int32_t>(output.size())));
  fake.stats_when([](const EngineStats& s) { return s.failure.has_value(); });
  const Error error = refused(fake, greedy({1}, 1));
  EXPECT_EQ(error.code, "model_file_changed");
  EXPECT_EQ(error.kind, ErrorKind::unavailable);
}

TEST(EngineFaults, A12_ChangedFileIsNoticedWhenIdle) {
  FakeEngine fake;
  fake.controls->weights_intact = false;
  fake.stats_when([](const EngineStats& s) { return s.failure.has_value(); });
}

TEST(EngineFaults, DeviceErrorFailsTheRequestsOfThatStepOnly) {
  FakeEngine fake({.max_sequences = 2});
  fake.controls->step_milliseconds = kUnhurried;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (Token t = 0; t < 4; ++t) sinks.push_back(fake.submit(greedy({t}, 30)));
  sinks[1]->wait_for_tokens(3);
  fake.controls->fail_next_step = true;
  fake.controls->step_milliseconds = 0;
  EXPECT_EQ(sinks[0]->wait().error->code, "device_error");
  EXPECT_EQ(sinks[1]->wait().error->code, "device_error");
  for (const Token t : {2, 3}) {
    EXPECT_EQ(sinks[static_cast<size_t>(t)]->wait().reason, FinishReason::length);
    EXPECT_EQ(sinks[static_cast<size_t>(t)]->output(), expected_output({t}, 30));
  }
}

TEST(EngineFaults, LostDeviceFailsEverythingAndTakesNothingMore) {
  FakeEngine fake({.max_sequences = 1});
  fake.controls->step_milliseconds = kUnhurried;
  const auto running = fake.submit(greedy({1, 2, 3}, 120)), queued = fake.submit(greedy({4}, 1));
  running->wait_for_tokens(1);
  fake.controls->lose_device = true;
  for (const auto& sink : {running, queued}) {
    const Finish finish = sink->wait();
    EXPECT_EQ(finish.error->code, "device_error");
    EXPECT_EQ(finish.error->kind, ErrorKind::io);
  }
  fake.stats_when([](const EngineStats& s) { return s.failure && s.failure->code == "device_error"; });
  EXPECT_EQ(refused(fake, greedy({1}, 1)).kind, ErrorKind::unavailable);
}

TEST(EngineFaults, WhatTheBackendGoesWithoutIsTold) {
  std::vector<std::string> notes;
  const FakeEngine fake(
      {.remark = "slower than it could be", .note = [&](const std::string& n) { notes.push_back(n); }});
  EXPECT_EQ(notes, std::vector<std::string>{"slower than it could be"});
}

TEST(EngineFaults, QueueFull) {
  FakeEngine fake({.max_sequences = 1, .max_queue = 2});
  fake.controls->step_milliseconds = kUnhurried;
  const auto running = fake.submit(greedy({1}, 100));
  running->wait_for_tokens(1);
  fake.submit(greedy({2}, 1));
  fake.submit(greedy({3}, 1));
  const Error error = refused(fake, greedy({4}, 1));
  EXPECT_EQ(error.code, "queue_full");
  EXPECT_EQ(error.kind, ErrorKind::unavailable);
}

TEST(EngineFaults, D15_DrainLetsTheRunningFinishAndRefusesNew) {
  FakeEngine fake;
  fake.controls->step_milliseconds = 1;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (Token t = 0; t < 8; ++t) sinks.push_back(fake.submit(greedy({t}, 50)));
  std::thread drain([&] { fake.engine->drain(30); });
  for (const auto& sink : sinks) EXPECT_EQ(sink->wait().reason, FinishReason::length);
  drain.join();
  EXPECT_EQ(refused(fake, greedy({1}, 1)).code, "shutting_down");
}

TEST(EngineFaults, D15_DrainCancelsWhatIsNotDoneInTime) {
  FakeEngine fake;
  fake.controls->step_milliseconds = kUnhurried;
  const auto sink = fake.submit(greedy({1}, 127));
  fake.engine->drain(0.05);
  EXPECT_TRUE(sink->finished());
  EXPECT_EQ(sink->wait().reason, FinishReason::cancelled);
}

TEST(EngineFaults, DestructionEndsWhatStillRuns) {
  std::shared_ptr<RecordingSink> sink;
  {
    FakeEngine fake;
    fake.controls->step_milliseconds = kUnhurried;
    sink = fake.submit(greedy({1}, 127));
  }
  EXPECT_EQ(sink->wait().reason, FinishReason::cancelled);
}

TEST(EngineFaults, G7_AFullPoolPreemptsAndEverybodyFinishes) {
  // Eight sequences of up to 128 tokens, pages for one.
  FakeEngine fake({.page_tokens = 4, .pages = 32, .context = 128});
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (Token t = 0; t < 8; ++t) sinks.push_back(fake.submit(greedy({t, 1, 2, 3, 4}, 123)));
  for (Token t = 0; t < 8; ++t) {
    EXPECT_EQ(sinks[static_cast<size_t>(t)]->wait().reason, FinishReason::length);
    EXPECT_EQ(sinks[static_cast<size_t>(t)]->output(), expected_output({t, 1, 2, 3, 4}, 123));
  }
}

TEST(EngineFaults, RandomSubmitsAndCancelsFromManyThreads) {
  FakeEngine fake({.page_tokens = 4, .pages = 48, .context = 96, .max_sequences = 7, .prefill_chunk = 9});
  const auto client = [&](uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 40; ++i) {
      const std::vector<Token> prompt = random_tokens(random, 1 + static_cast<int32_t>(random() % 60));
      const auto count = 1 + static_cast<int32_t>(random() % 30);
      auto sink = std::make_shared<RecordingSink>();
      const RequestId id = fake.submit(greedy(prompt, count), sink);
      if (random() % 3 == 0) fake.engine->cancel(id);
      const Finish finish = sink->wait();
      const std::vector<Token> output = sink->output();
      EXPECT_TRUE(finish.reason == FinishReason::cancelled || static_cast<int32_t>(output.size()) == count);
      EXPECT_EQ(output, expected_output(prompt, static_cast<int32_t>(output.size())));
    }
  };
  std::vector<std::thread> clients;
  for (uint32_t seed = 1; seed <= 6; ++seed) clients.emplace_back(client, seed);
  for (std::thread& thread : clients) thread.join();
  const EngineStats stats = fake.stats_when([](const EngineStats& s) { return s.requests_finished == 240; });
  EXPECT_EQ(stats.pages_used, 0);
}

}  // namespace
}  // namespace martlet
