#include <deque>
#include <filesystem>
#include <fstream>

#include "server/duration.h"
#include "server/fixture.h"
#include "server/model_manager.h"

namespace martlet::server {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

Plan plan_of(int64_t bytes, int32_t context = 512) {
  Plan plan;
  plan.parts = {{"weights", bytes, ""}, {"program", 10 * kMiB, "", true}};
  plan.context = context;
  return plan;
}

// What tests see and turn while sources are used.
struct Controls {
  std::atomic<int> loads{0}, alive{0};
  std::atomic<bool> hold{false};  // load() waits while it is set
  std::atomic<bool> broken{false};
  std::atomic<int32_t> context{0};  // of the last load
};

// A model that needs `bytes` for 4096 tokens of context, and fits into less with a shorter one.
class FakeSource final : public ModelSource {
 public:
  FakeSource(std::string name, int64_t bytes, Controls& controls, std::chrono::milliseconds step)
      : name_(std::move(name)), bytes_(bytes), controls_(controls), step_(step) {}
  const std::string& name() const override { return name_; }
  Result<Plan> plan(const Allowance& allowance) override {
    const int64_t memory = allowance.memory > 0 ? allowance.memory : 100 * kMiB;
    if (controls_.broken) return Error{ErrorKind::model, "bad_header", "not a model", ""};
    if (bytes_ + 10 * kMiB > memory) return Error{ErrorKind::memory, "does_not_fit", "too large", ""};
    return plan_of(bytes_, 4096);
  }
  Result<std::shared_ptr<const ServedModel>> load(const Allowance& allowance) override {
    ++controls_.loads;
    while (controls_.hold) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    MARTLET_ASSIGN(Plan plan, this->plan(allowance));
    controls_.context = allowance.context;
    ++controls_.alive;
    auto engine = std::make_unique<FakeEngine>(step_, allowance.context, std::move(plan));
    return std::shared_ptr<const ServedModel>(
        new ServedModel{name_, 1, std::make_shared<FakeTokenizer>(), *ChatTemplate::parse("{{ messages[0].content }}"),
                        std::move(engine)},
        [this](const ServedModel* model) {
          delete model;
          --controls_.alive;
        });
  }

 private:
  const std::string name_;
  const int64_t bytes_;
  Controls& controls_;
  const std::chrono::milliseconds step_;
};

std::string state_of(const ModelManager& manager, const std::string& name) {
  return name_of(manager.find(name)->state);
}

struct Models : testing::Test {
  void offer(const std::string& name, int64_t mebibytes) {
    ASSERT_TRUE(manager->add(std::make_unique<FakeSource>(name, mebibytes * kMiB, controls.emplace_back(), step)));
  }
  std::chrono::milliseconds step{0};
  std::deque<Controls> controls;
  std::unique_ptr<ModelManager> manager = std::make_unique<ModelManager>(100 * kMiB);
};

TEST_F(Models, LoadsOnFirstUseAndUnloadsTheLeastRecentlyUsedForMemory) {
  offer("a", 40), offer("b", 40), offer("c", 40);
  EXPECT_EQ(state_of(*manager, "a"), "unloaded");
  ASSERT_TRUE(manager->acquire_now("a"));
  ASSERT_TRUE(manager->acquire_now("b"));
  ASSERT_TRUE(manager->acquire_now("a"));  // b is the least recently used now
  EXPECT_EQ(controls[0].loads, 1);
  ASSERT_TRUE(manager->acquire_now("c"));
  EXPECT_EQ(state_of(*manager, "a"), "loaded");
  EXPECT_EQ(state_of(*manager, "b"), "unloaded");
  EXPECT_EQ(state_of(*manager, "c"), "loaded");
  EXPECT_EQ(controls[1].alive, 0);
  EXPECT_EQ(manager->find("c")->context, 4096);
}

TEST_F(Models, ManySmallOnesStay) {
  for (int i = 0; i < 30; ++i) offer("m" + std::to_string(i), 3);
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(manager->acquire_now("m" + std::to_string(i)));
  for (int i = 0; i < 30; ++i) EXPECT_EQ(state_of(*manager, "m" + std::to_string(i)), "loaded");
}

TEST_F(Models, WhatIsInUseIsNotUnloadedAndTheNewOneIsRefusedWithTheReason) {
  offer("a", 40), offer("b", 60);
  auto lease = manager->acquire_now("a");
  ASSERT_TRUE(lease);
  const auto refused = manager->acquire_now("b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "memory_in_use");
  EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(state_of(*manager, "a"), "loaded");
  EXPECT_EQ(manager->find("b")->error, "memory_in_use");
  lease = Error{};
  EXPECT_TRUE(manager->acquire_now("b"));
  EXPECT_EQ(state_of(*manager, "a"), "unloaded");
}

TEST_F(Models, G1_OneThatFitsNowhereTouchesNoOther) {
  offer("a", 40), offer("huge", 95);
  ASSERT_TRUE(manager->acquire_now("a"));
  const auto refused = manager->acquire_now("huge");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "does_not_fit");
  EXPECT_EQ(state_of(*manager, "a"), "loaded");
  EXPECT_EQ(controls[1].loads, 0);
}

TEST_F(Models, NamesAreUniqueAndTheFirstIsTheDefault) {
  offer("a", 1), offer("b", 1);
  Controls more;
  const Status again = manager->add(std::make_unique<FakeSource>("a", kMiB, more, step));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, "duplicate_name");
  EXPECT_EQ((*manager->acquire_now("default"))->name, "a");
  EXPECT_EQ(manager->acquire_now("nobody").error().code, "model_not_found");
  EXPECT_EQ(manager->acquire_now("../a").error().code, "invalid_path");
}

TEST_F(Models, KeepAliveEndsIdleModelsOnly) {
  manager = std::make_unique<ModelManager>(100 * kMiB, std::chrono::duration<double>(0));
  offer("a", 10);
  auto a = manager->acquire_now("a");
  ASSERT_TRUE(a);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(state_of(*manager, "a"), "loaded");
  a = Error{};
  EXPECT_TRUE(eventually([&] { return state_of(*manager, "a") == "unloaded"; }));
}

TEST_F(Models, ABrokenModelCanBeMended) {
  offer("a", 10);
  controls[0].broken = true;
  EXPECT_EQ(manager->acquire_now("a").error().code, "bad_header");
  EXPECT_EQ(manager->find("a")->error, "bad_header");
  controls[0].broken = false;
  EXPECT_TRUE(manager->acquire_now("a"));
  EXPECT_EQ(manager->find("a")->error, "");
}

TEST_F(Models, WhoeverLeftWhileItWaitedLoadsNothing) {
  offer("a", 10), offer("b", 10);
  controls[0].hold = true;
  std::atomic<int> answers{0};
  std::atomic<bool> wanted{true};
  const auto ready = [&](Result<ModelManager::Model> model) { answers += model ? 1 : 100; };
  EXPECT_FALSE(manager->acquire(
      "a", std::nullopt, [] { return true; }, ready));
  EXPECT_FALSE(manager->acquire(
      "b", std::nullopt, [&] { return wanted.load(); }, ready));
  ASSERT_TRUE(eventually([&] { return controls[0].loads == 1; }));
  EXPECT_EQ(state_of(*manager, "a"), "loading");
  wanted = false;
  controls[0].hold = false;
  ASSERT_TRUE(eventually([&] { return answers == 1; }));
  ASSERT_TRUE(manager->acquire_now("a"));
  EXPECT_EQ(controls[1].loads, 0);
  EXPECT_EQ(answers, 1);
}

TEST_F(Models, ManyThreadsAskForMoreThanFits) {
  for (const char* name : {"a", "b", "c", "d", "e"}) offer(name, 30);
  std::atomic<int> served{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        const auto model = manager->acquire_now(std::string(1, static_cast<char>('a' + (t * 7 + i * 3) % 5)));
        if (model) {
          EXPECT_EQ((*model)->engine->context(), 4096);
          ++served;
        } else {
          EXPECT_EQ(model.error().code, "memory_in_use");
          ++refused;
        }
        int alive = 0;
        for (const Controls& each : controls) alive += each.alive;
        EXPECT_LE(alive, 3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(served, 0);
  EXPECT_EQ(served + refused, 320);
}

// Through HTTP

struct Server2 {
  explicit Server2(ServerOptions options = {}, int64_t mebibytes = 60) {
    options.http.port = 0;
    options.memory = 100 * kMiB;
    server = std::move(*Server::start(options));
    port = static_cast<uint16_t>(std::stoi(server->address().substr(server->address().rfind(':') + 1)));
    for (const char* name : {"a", "b"}) {
      EXPECT_TRUE(server->models().add(
          std::make_unique<FakeSource>(name, mebibytes * kMiB, controls.emplace_back(), std::chrono::milliseconds(5))));
    }
    server->open();
  }
  Answer complete(const std::string& model, const std::string& more = {}) {
    return ask(port, "POST", "/v1/completions", R"({"prompt":"ab","model":")" + model + "\"" + more + "}");
  }
  std::deque<Controls> controls;  // outlives the server
  std::unique_ptr<Server> server;
  uint16_t port = 0;
};

TEST(ModelsOverHttp, RequestsChooseTheirModel) {
  Server2 f;
  Answer list = ask(f.port, "GET", "/v1/models");
  EXPECT_EQ(list.at("/data/0/state"), "unloaded");
  EXPECT_EQ(list.at("/data/1/id"), "b");
  EXPECT_EQ(f.complete("b").at("/model"), "b");
  EXPECT_EQ(f.complete("default").at("/model"), "a");
  list = ask(f.port, "GET", "/v1/models");
  EXPECT_EQ(list.at("/data/0/state"), "loaded");
  EXPECT_EQ(list.at("/data/0/max_model_len"), 4096);
  EXPECT_EQ(list.at("/data/0/memory_bytes"), 60 * kMiB);
  EXPECT_EQ(list.at("/data/1/state"), "unloaded");
  EXPECT_EQ(ask(f.port, "GET", "/v1/models/b").at("/state"), "unloaded");
  EXPECT_EQ(f.complete("c").status, 404);
  const Answer ids = ask(f.port, "POST", "/tokenize", R"({"content":"ab","model":"b"})");
  EXPECT_EQ(ids.at("/tokens"), boost::json::parse("[97,98]")) << ids.body;
  EXPECT_EQ(f.controls[1].alive, 1);
  const Answer metrics = ask(f.port, "GET", "/metrics");
  EXPECT_NE(metrics.body.find("martlet_memory_planned_bytes{part=\"weights\"} 62914560"), std::string::npos)
      << metrics.body;
  EXPECT_NE(metrics.body.find("martlet_models_loaded 1"), std::string::npos);
}

TEST(ModelsOverHttp, AStreamHoldsItsModelAndOthersAreRefused) {
  Server2 f;
  Client client(f.port);
  const std::string body = R"({"prompt":"ab","model":"a","stream":true,"ignore_eos":true,"max_tokens":100000})";
  client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  ASSERT_NE(client.receive("data: ").find("data: "), std::string::npos);
  const Answer refused = f.complete("b");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.at("/error/code"), "memory_in_use");
  EXPECT_EQ(ask(f.port, "GET", "/v1/models/a").at("/requests"), 1);
  client.close();
  EXPECT_TRUE(eventually([&] { return f.complete("b").status == 200; }));
  EXPECT_TRUE(eventually([&] { return ask(f.port, "GET", "/v1/models/b").at("/requests") == 0; }));
}

TEST(ModelsOverHttp, KeepAliveOfARequest) {
  Server2 f;
  EXPECT_EQ(f.complete("a", R"(,"keep_alive":"5x")").at("/error/param"), "keep_alive");
  EXPECT_EQ(f.complete("a", R"(,"keep_alive":"5m")").status, 200);
  EXPECT_EQ(ask(f.port, "GET", "/v1/models/a").at("/state"), "loaded");
  EXPECT_EQ(f.complete("a", R"(,"keep_alive":0)").status, 200);
  EXPECT_TRUE(eventually([&] { return ask(f.port, "GET", "/v1/models/a").at("/state") == "unloaded"; }));
}

TEST(ModelsOverHttp, AClientThatLeavesWhileItsModelLoads) {
  Server2 f;
  f.controls[0].hold = true;
  {
    Client client(f.port);
    const std::string body = R"({"prompt":"ab","model":"a"})";
    client.send(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
    ASSERT_TRUE(eventually([&] { return f.controls[0].loads == 1; }));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  f.controls[0].hold = false;
  EXPECT_TRUE(eventually([&] { return ask(f.port, "GET", "/v1/models/a").at("/state") == "loaded"; }));
  EXPECT_TRUE(eventually([&] { return ask(f.port, "GET", "/v1/models/a").at("/requests") == 0; }));
}

TEST(ModelsOverHttp, G8_UnderPressureCachesGoThenNewWorkIsRefusedAndStreamsFinish) {
  const std::string file = testing::TempDir() + "martlet-pressure-" + std::to_string(getpid());
  std::ofstream(file) << "none";
  ServerOptions options;
  options.pressure = net::file_pressure(file);
  options.pressure_interval = std::chrono::milliseconds(20);
  Fixture f(options, std::chrono::milliseconds(5));
  Client client(f.port());
  const std::string body = R"({"prompt":"ab","stream":true,"ignore_eos":true,"max_tokens":400})";
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Connection: close\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  ASSERT_NE(client.receive("data: ").find("data: "), std::string::npos);
  EXPECT_EQ(f.engine().cache_drops, 0);
  std::ofstream(file) << "critical";
  ASSERT_TRUE(eventually([&] { return f.engine().cache_drops > 0; }));
  EXPECT_EQ(f.post("/v1/completions", R"({"prompt":"ab"})").status, 200) << "caches first";
  ASSERT_TRUE(eventually([&] { return f.post("/v1/completions", R"({"prompt":"ab"})").status == 503; }));
  EXPECT_EQ(f.post("/v1/completions", R"({"prompt":"ab"})").at("/error/code"), "memory_pressure");
  EXPECT_EQ(f.get("/health").at("/memory/refusing"), true);
  EXPECT_EQ(f.get("/health").at("/memory/pressure"), "critical");
  EXPECT_NE(client.receive().find("[DONE]"), std::string::npos) << "a live stream finishes";
  std::ofstream(file) << "none";
  std::filesystem::remove(file);
}

TEST(ModelsOverHttp, G8_WhenMemoryIsCriticalModelsThatNobodyUsesAreUnloaded) {
  const std::string file = testing::TempDir() + "martlet-critical-" + std::to_string(getpid());
  std::ofstream(file) << "none";
  ServerOptions options;
  options.pressure = net::file_pressure(file);
  options.pressure_interval = std::chrono::milliseconds(20);
  Server2 f(options, 30);
  const auto state = [&](const std::string& name) { return ask(f.port, "GET", "/v1/models/" + name).at("/state"); };
  const auto under = [&](const char* level) {
    std::ofstream(file) << level;
    return eventually([&] { return ask(f.port, "GET", "/health").at("/memory/pressure") == level; });
  };
  EXPECT_EQ(f.complete("b").status, 200);
  Client client(f.port);
  client.send(request_bytes("POST", "/v1/completions",
                            R"({"prompt":"ab","model":"a","stream":true,"ignore_eos":true,"max_tokens":600})"));
  ASSERT_NE(client.receive("data: ").find("data: "), std::string::npos);
  EXPECT_EQ(state("a"), "loaded");
  ASSERT_TRUE(under("some"));
  EXPECT_EQ(state("b"), "loaded") << "its cache is enough";
  ASSERT_TRUE(under("critical"));
  EXPECT_TRUE(eventually([&] { return state("b") == "unloaded"; }));
  EXPECT_EQ(f.controls[1].alive, 0);
  EXPECT_EQ(state("a"), "loaded");
  EXPECT_NE(client.receive().find("[DONE]"), std::string::npos) << "who runs finishes";
  std::filesystem::remove(file);
}

TEST(Durations, AreSecondsOrHaveAUnit) {
  EXPECT_EQ(parse_duration("300")->count(), 300);
  EXPECT_EQ(parse_duration("1.5h")->count(), 5400);
  EXPECT_EQ(parse_duration("0")->count(), 0);
  EXPECT_LT(parse_duration("-1m")->count(), 0);
  for (const char* bad : {"", "m", "5 m", "5x", "nan", "inf", "1e300"}) EXPECT_FALSE(parse_duration(bad)) << bad;
}

}  // namespace
}  // namespace martlet::server
