#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <limits>

#include "engine/fake_backend.h"
#include "plan/bandwidth.h"
#include "plan/ceiling.h"
#include "plan/planner.h"

namespace martlet {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMiB = int64_t{1} << 20;

Hyperparameters model() {
  Hyperparameters h;
  h.layers = 16;
  h.width = 256;
  h.ffn = 512;
  h.heads = 8;
  h.kv_heads = 4;
  h.key_size = h.value_size = 64;
  h.context = 32768;
  h.vocabulary = 1000;
  return h;
}
// Bytes of cache that a token of model() takes: layers, heads, keys and values of 2 bytes.
constexpr int64_t kTokenBytes = 16 * 4 * 128 * 2;

class Planning : public testing::Test {
 protected:
  Result<Plan> plan(int64_t ceiling, const PlanOptions& options = {}) {
    return make_plan({h_, 100 * kMiB, 90 * kMiB, 1 * kMiB}, backend_, {ceiling, "--memory"}, options);
  }
  // What the model takes without a cache.
  int64_t fixed() { return plan(1 << 30)->total() - plan(1 << 30)->cache_tokens * kTokenBytes; }

  Hyperparameters h_ = model();
  std::shared_ptr<FakeControls> controls_ = std::make_shared<FakeControls>();
  FakeBackend backend_{16, 1, controls_};
};

TEST_F(Planning, WithRoomTheDefaultsHold) {
  const auto p = plan(int64_t{8} << 30);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->context, kDefaultContext);
  EXPECT_EQ(p->cache_tokens, kDefaultContext * kDefaultFullSequences);
  EXPECT_EQ(p->sequences, kDefaultFullSequences);
  EXPECT_EQ(p->model_context, 32768);
}

TEST_F(Planning, ThePoolIsCutBeforeTheContext) {
  const auto p = plan(fixed() + 10000 * kTokenBytes);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->context, kDefaultContext);
  EXPECT_EQ(p->cache_tokens, 10000);
  EXPECT_EQ(p->sequences, 1);
  const auto small = plan(fixed() + 3000 * kTokenBytes);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->context, 2992);  // whole pages
  EXPECT_LE(small->total(), small->ceiling);
  EXPECT_TRUE(small->fitted());
  EXPECT_FALSE(p->fitted());
}

TEST_F(Planning, StreamsThatWereAskedForShareTheContextThatFits) {
  const auto p = plan(fixed() + 10000 * kTokenBytes, {.streams = 4});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->context, 2496);  // 10000 / 4 in whole pages
  EXPECT_EQ(p->sequences, 4);
  EXPECT_LE(p->total(), p->ceiling);
  const auto refused = plan(fixed() + 10000 * kTokenBytes, {.context = 4096, .streams = 4});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("--streams"), std::string::npos);
}

TEST_F(Planning, ThePromptCacheComesOnTop) {
  const auto without = plan(int64_t{8} << 30), with = plan(int64_t{8} << 30, {.prompt_cache = 64 * kMiB});
  ASSERT_TRUE(with);
  EXPECT_EQ(with->total() - without->total(), 64 * kMiB);
  EXPECT_EQ(with->cache_tokens - without->cache_tokens, 64 * kMiB / kTokenBytes);
  EXPECT_EQ(with->sequences, without->sequences);
  EXPECT_EQ(with->parts.back().name, "prompt cache");
}

TEST_F(Planning, G6_ADraftIsCountedWithItsCache) {
  ModelNeeds draft{h_, 10 * kMiB, 10 * kMiB, 0};
  draft.h.layers = 4;
  const auto alone = plan(int64_t{8} << 30), both = plan(int64_t{8} << 30, {.draft = &draft});
  ASSERT_TRUE(both);
  EXPECT_EQ(both->cache_bytes_per_token, kTokenBytes + kTokenBytes / 4);
  EXPECT_GE(both->total() - alone->total(), 10 * kMiB + alone->cache_tokens * kTokenBytes / 4);
  const auto refused = plan(alone->total(), {.context = 8192, .streams = 4, .draft = &draft});
  ASSERT_FALSE(refused);
  EXPECT_EQ(exit_code(refused.error().kind), 4);
  EXPECT_NE(refused.error().text.find("draft"), std::string::npos);
}

TEST_F(Planning, WhatAProcessTakesOnceIsNotTheModels) {
  const auto p = plan(int64_t{8} << 30, {.server_bytes = 7 * kMiB});
  const auto without = plan(int64_t{8} << 30);
  EXPECT_EQ(p->total() - without->total(), 7 * kMiB);
  EXPECT_EQ(p->model_bytes(), without->model_bytes());
  EXPECT_LT(p->model_bytes(), p->total());
}

TEST_F(Planning, TheTableSaysWhatMachinesHold) {
  h_.layers = 160;
  h_.context = 1 << 20;
  const int64_t memories[] = {int64_t{100} << 20, int64_t{1} << 30, int64_t{64} << 30};
  const auto rows = plan_table({h_, 100 * kMiB, 90 * kMiB, 0}, backend_, {}, memories);
  ASSERT_TRUE(rows);
  EXPECT_EQ((*rows)[0].context, 0);
  EXPECT_EQ((*rows)[0].streams, 0);
  EXPECT_GT((*rows)[1].context, kDefaultContext / 4);
  EXPECT_GT((*rows)[2].streams, 30);
  EXPECT_GT((*rows)[2].context, (*rows)[1].context);
  // As many streams as it says must fit, and one more must not.
  const Ceiling ceiling{machine_ceiling(memories[2]), "test"};
  const auto streams = static_cast<int32_t>((*rows)[2].streams);
  const ModelNeeds needs{h_, 100 * kMiB, 90 * kMiB, 0};
  EXPECT_TRUE(make_plan(needs, backend_, ceiling, {.context = kDefaultContext, .streams = streams}));
  EXPECT_FALSE(make_plan(needs, backend_, ceiling, {.context = kDefaultContext, .streams = streams + 1}));
}

class PlanningForADevice : public Planning {
 protected:
  PlanningForADevice() { controls_->device_memory = DeviceMemory{.free = int64_t{1} << 30}; }
  int64_t part(const Plan& p, const std::string& name) {
    for (const PlanPart& each : p.parts)
      if (each.name == name) return each.bytes;
    return -1;
  }
};

TEST_F(PlanningForADevice, WhatTheMachineHoldsDoesNotCount) {
  const PlanOptions options{.context = 4096, .server_bytes = 7 * kMiB};
  const auto on_device = plan(int64_t{8} << 30, options);
  controls_->device_memory.reset();
  const auto here = plan(int64_t{8} << 30, options);
  ASSERT_TRUE(on_device && here);
  int64_t on_host = 0;
  for (const PlanPart& part : on_device->parts) on_host += part.on_host ? part.bytes : 0;
  EXPECT_EQ(on_host, part(*here, "tokenizer") + part(*here, "program") + part(*here, "server"));
  EXPECT_EQ(on_device->total(), here->total() - on_host);
  EXPECT_EQ(on_device->model_bytes(), on_device->total());
  for (const PlanPart& part : here->parts) EXPECT_FALSE(part.on_host) << part.name;
}

TEST_F(PlanningForADevice, ARefusalNamesItsPartsAlone) {
  const auto refused = plan(90 * kMiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(exit_code(refused.error().kind), 4);
  EXPECT_NE(refused.error().text.find("weights 0.10"), std::string::npos) << refused.error().text;
  EXPECT_EQ(refused.error().text.find("program"), std::string::npos) << refused.error().text;
}

TEST_F(PlanningForADevice, CopiesGetWhatIsLeft) {
  const auto with_copies = [&](int64_t ceiling, int64_t wanted) {
    return make_plan({h_, 100 * kMiB, 90 * kMiB, kMiB, wanted}, backend_, {ceiling, "--memory"}, {.context = 4096});
  };
  const auto none = with_copies(int64_t{8} << 30, 0), all = with_copies(int64_t{8} << 30, 300 * kMiB);
  ASSERT_TRUE(none && all);
  EXPECT_EQ(part(*none, "copies"), -1);
  EXPECT_EQ(none->copies, 0);
  EXPECT_EQ(all->copies, 300 * kMiB);
  EXPECT_EQ(part(*all, "copies"), 300 * kMiB);
  EXPECT_EQ(all->total(), none->total() + 300 * kMiB);
  // They cost neither context nor streams, and are never why a model is refused.
  const auto some = with_copies(none->total() + 40 * kMiB, 300 * kMiB), least = with_copies(none->total(), 300 * kMiB);
  ASSERT_TRUE(some && least);
  EXPECT_EQ(some->copies, 40 * kMiB);
  EXPECT_EQ(some->cache_tokens, none->cache_tokens);
  EXPECT_NE(some->parts.back().note.find("as many as fit"), std::string::npos) << some->parts.back().note;
  EXPECT_EQ(least->copies, 0);
}

TEST_F(PlanningForADevice, TheTableCountsNoCopies) {
  const int64_t memories[] = {int64_t{8} << 30};
  const auto without = plan_table({h_, 100 * kMiB, 90 * kMiB, 0}, backend_, {}, memories);
  const auto with = plan_table({h_, 100 * kMiB, 90 * kMiB, 0, 900 * kMiB}, backend_, {}, memories);
  ASSERT_TRUE(without && with);
  EXPECT_EQ((*with)[0].streams, (*without)[0].streams);
  EXPECT_GT((*with)[0].streams, 4);
}

TEST_F(Planning, AContextThatWasAskedForIsNeverCut) {
  ASSERT_TRUE(plan(fixed() + 4096 * kTokenBytes, {.context = 4096}));
  const auto p = plan(fixed() + 4096 * kTokenBytes - 1, {.context = 4096});
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, "does_not_fit");
}

TEST_F(Planning, G6_ADraftModelAndItsCacheAreCountedOrRefused) {
  const ModelNeeds draft{model(), 50 * kMiB};
  const PlanOptions options{.context = 4096, .draft = &draft};
  const int64_t alone = plan(int64_t{1} << 32, {.context = 4096})->total();
  const auto with = plan(int64_t{1} << 32, options);
  ASSERT_TRUE(with);
  EXPECT_GE(with->total(), alone + 50 * kMiB + with->cache_tokens * kTokenBytes);
  EXPECT_EQ(with->parts.back().bytes, with->cache_tokens * 2 * kTokenBytes);
  const auto refused = plan(with->total() - (with->cache_tokens - 4096) * 2 * kTokenBytes - 1, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "does_not_fit");
  EXPECT_EQ(exit_code(refused.error().kind), 4);
}

TEST_F(Planning, ASmallerCacheTypeHoldsMoreTokens) {
  const auto halves = plan(fixed() + 4096 * kTokenBytes),
             bytes = plan(fixed() + 4096 * kTokenBytes, {.cache_type = CacheType::q8});
  ASSERT_TRUE(halves && bytes);
  EXPECT_EQ(halves->cache_tokens, 4096);
  EXPECT_EQ(bytes->cache_tokens, 8192);
  EXPECT_EQ(bytes->parts.back().bytes, 4096 * kTokenBytes);
  EXPECT_NE(bytes->parts.back().note.find("q8"), std::string::npos);
}

TEST_F(Planning, ACacheTypeThatTheBackendDoesNotKeepIsRefused) {
  const auto p = plan(1 << 30, {.cache_type = CacheType::fp8});
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().kind, ErrorKind::usage);
  EXPECT_EQ(p.error().code, "unsupported_cache_type");
  EXPECT_NE(p.error().text.find("fake backend does not keep keys and values as fp8"), std::string::npos);
}

TEST_F(Planning, G1_RefusalListsNeedHaveAndFlags) {
  const auto p = plan(120 * kMiB);
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().kind, ErrorKind::memory);
  EXPECT_EQ(exit_code(p.error().kind), 4);
  EXPECT_EQ(p.error().code, "does_not_fit");
  for (const char* part : {"needs", "0.12 GiB", "--context", "--memory"})
    EXPECT_NE(p.error().text.find(part), std::string::npos) << part;
}

TEST_F(Planning, G1_ARefusalNamesWhatWouldDoByItself) {
  const auto said = [](const Result<Plan>& refused) { return refused ? "it fits" : refused.error().text; };
  const auto names = [](const std::string& text, const char* flag) { return text.find(flag) != text.npos; };
  const std::string halves = said(plan(fixed() + 2048 * kTokenBytes, {.context = 4096}));
  EXPECT_TRUE(names(halves, "; it would fit with --cache-type q8")) << halves;
  EXPECT_FALSE(names(halves, "--max-sequences")) << halves;
  // Rows of a step are memory too.
  const int64_t one = plan(1 << 30, {.context = 4096, .max_sequences = 1, .prompt_cache = 8192 * kTokenBytes})->total();
  const std::string rows =
      said(plan(one, {.context = 4096, .prompt_cache = 8192 * kTokenBytes, .cache_type = CacheType::q8}));
  EXPECT_EQ(rows, "it fits");
  const std::string both = said(plan(one, {.context = 4096, .prompt_cache = 8192 * kTokenBytes}));
  EXPECT_TRUE(names(both, "with --cache-type q8 or --max-sequences 1")) << both;
  const std::string neither = said(plan(100 * kMiB));
  EXPECT_FALSE(names(neither, "would fit")) << neither;
}

TEST_F(Planning, G3_ContextTimesSequencesOverflows) {
  for (const PlanOptions options :
       {PlanOptions{1 << 30, 1 << 10}, PlanOptions{std::numeric_limits<int32_t>::max(), 4096}}) {
    const auto p = plan(int64_t{8} << 30, options);
    ASSERT_FALSE(p);
    EXPECT_EQ(p.error().kind, ErrorKind::memory);
    EXPECT_EQ(p.error().code, "plan_overflow");
  }
}

TEST_F(Planning, G3_CacheOfAbsurdModelsOverflows) {
  h_.layers = 1024;
  h_.kv_heads = h_.key_size = h_.value_size = 4096;
  h_.context = 1 << 30;
  const auto p = plan(int64_t{8} << 30, {1 << 30, 1});
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().code, "plan_overflow");
}

TEST_F(Planning, AContextBeyondTheModelsIsRefused) {
  const auto p = plan(int64_t{8} << 30, {.context = 32769});
  ASSERT_FALSE(p);
  EXPECT_EQ(p.error().kind, ErrorKind::usage);
  EXPECT_EQ(p.error().where, "--context");
}

TEST_F(Planning, RooflineIsBandwidthOverBytesRead) {
  Plan p = *plan(int64_t{8} << 30);
  add_roofline(p, 9.0 * kMiB * 90 / 1e9);
  EXPECT_NEAR(p.roofline_tokens_per_s, 9, 1e-9);
  // The cache is read too: as many bytes again halve the speed.
  EXPECT_NEAR(p.roofline_at(90 * kMiB / kTokenBytes), 4.5, 1e-3);
}

// A made-up hierarchy below a folder of its own.
class Cgroups : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  const fs::path root_ = fs::temp_directory_path() / ("martlet-cgroup-" + std::to_string(getpid()));
};

TEST_F(Cgroups, G2_TheTightestAncestorOfVersion2Governs) {
  write("memory.max", "max");
  write("a/memory.max", "6400");
  write("a/b/memory.max", "12800");
  EXPECT_EQ(cgroup_room(root_, "0::/a/b\n", 0), 6300);  // less a sixty-fourth
  EXPECT_EQ(cgroup_room(root_, "0::/\n", 0), std::nullopt);
}

TEST_F(Cgroups, G2_Version1AndItsNoLimit) {
  write("memory/memory.limit_in_bytes", "9223372036854771712");
  write("memory/a/memory.limit_in_bytes", "6400");
  EXPECT_EQ(cgroup_room(root_, "5:cpu,memory:/a\n4:cpuset:/\n", 0), 6300);
  EXPECT_EQ(cgroup_room(root_, "5:memory:/\n", 0), std::nullopt);
}

TEST_F(Cgroups, G2_InAContainerTheMountItselfIsTheGroup) {
  write("memory.max", "6400");
  EXPECT_EQ(cgroup_room(root_, "0::/system.slice/docker-0123.scope\n", 0), 6300);
  EXPECT_EQ(cgroup_room(root_, "0::/../../elsewhere\n", 0), 6300);
  EXPECT_EQ(cgroup_room(root_, "nonsense\n5:\n", 0), std::nullopt);
}

TEST_F(Cgroups, G2_WhatOthersInTheGroupHoldIsNotOurs) {
  write("memory.max", "6400");
  write("memory.stat", "file 5000\nanon 1300\nanon_thp 7");
  EXPECT_EQ(cgroup_room(root_, "0::/\n", 300), 5300);
  write("memory.stat", "anon 999999");
  EXPECT_EQ(cgroup_room(root_, "0::/\n", 300), 0);
  write("memory/memory.limit_in_bytes", "6400");
  write("memory/memory.stat", "rss 1\ntotal_rss 1000");
  EXPECT_EQ(cgroup_room(root_, "3:memory:/\n", 0), 5300);
}

TEST(CeilingOfMemory, TheFlagWins) {
  EXPECT_EQ(memory_ceiling(123).bytes, 123);
  EXPECT_EQ(memory_ceiling(123).source, "--memory");
  EXPECT_GT(memory_ceiling(0).bytes, 0);
}

TEST(CeilingOfMemory, ADeviceOfItsOwnGovernsItsBackend) {
  const auto controls = std::make_shared<FakeControls>();
  const FakeBackend backend(16, 1, controls);
  EXPECT_EQ(memory_ceiling(7 * kMiB, backend).source, "--memory");
  controls->device_memory = DeviceMemory{.free = 40 * kMiB, .held = 24 * kMiB};
  EXPECT_EQ(memory_ceiling(0, backend).bytes, 62 * kMiB);
  EXPECT_EQ(memory_ceiling(0, backend).source, "free on the device");
  EXPECT_EQ(memory_ceiling(7 * kMiB, backend).bytes, 7 * kMiB);
  EXPECT_EQ(memory_ceiling(100 * kMiB, backend).bytes, 62 * kMiB);
}

TEST(Bandwidth, IsPlausible) {
  const double gb_s = measure_read_bandwidth(2);
  EXPECT_GT(gb_s, 0.1);
  EXPECT_LT(gb_s, 5000);
}

}  // namespace
}  // namespace martlet
