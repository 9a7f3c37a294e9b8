// FAULTS B1: a megabyte of anything, on a small stack, in linear time, for every kind of vocabulary and every way to
// cut.

#include <pthread.h>
#include <time.h>

#include <functional>
#include <set>

#include "sanitized.h"
#include "shared.h"
#include "small_vocabulary.h"
#include "text/pre_tokenizers.h"

namespace martlet {
namespace {

#if defined(__OPTIMIZE__) && !MARTLET_ADDRESS_SANITIZER && !MARTLET_THREAD_SANITIZER
constexpr size_t kBytes = 1 << 20;
#else
constexpr size_t kBytes = 1 << 17;  // checks the stack and the growth, not the speed
#endif
constexpr double kLimitSeconds = 1.0, kMeasurable = 0.02;

struct Thread {
  const std::function<void()>* body;
  double seconds;
};

void* run_thread(void* argument) {
  auto* thread = static_cast<Thread*>(argument);
  timespec before, after;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  (*thread->body)();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  thread->seconds =
      static_cast<double>(after.tv_sec - before.tv_sec) + 1e-9 * static_cast<double>(after.tv_nsec - before.tv_nsec);
  return nullptr;
}

// Processor seconds of `body` on a thread with a stack of 512 KiB.
double on_small_stack(const std::function<void()>& body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 512 << 10);
  pthread_t id;
  Thread thread{&body, 0};
  EXPECT_EQ(pthread_create(&id, &attributes, run_thread, &thread), 0);
  pthread_join(id, nullptr);
  pthread_attr_destroy(&attributes);
  return thread.seconds;
}

std::string repeated(std::string_view unit, size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += unit;
  return out;
}

struct Input {
  const char* name;
  std::string_view unit, end = "";
};
constexpr size_t kNamedByB1 = 5;
constexpr Input kInputs[] = {
    {"A", "A"},
    {"newline", "\n"},
    {"underscore", "_"},
    {"na", "न"},
    {"zwj", "👨‍👩‍👧‍👦\u200d"},
    {"space", " "},
    {"spaces before a letter", " ", "x"},
    {"spaces before an emoji", " ", "🦙"},
    {"tabs before a newline", "\t", "\nx"},
    {"digit", "1"},
    {"lower and upper", "aA"},
    {"letter and space", "a "},
    {"space and newline", " \n"},
    {"upper before lower", "A", "a1"},
    {"marks", "e\u0301"},
    {"han", "字"},
    {"apostrophe", "'"},
    {"s", "'s"},
    {"no UTF-8", "\xff"},
    {"cut UTF-8", "\xe2\x96"},
};

void check_linear(const Tokenizer& tokenizer, const std::string& label, std::span<const Input> inputs) {
  for (const Input& input : inputs) {
    const size_t most = &input < kInputs + kNamedByB1 ? kBytes : kBytes / 4;
    const auto seconds = [&](size_t bytes) {
      const std::string text = repeated(input.unit, bytes) + std::string(input.end);
      return on_small_stack([&] { encode(tokenizer, text); });
    };
    double half = seconds(most / 2), whole = seconds(most);
    EXPECT_LE(whole, kLimitSeconds) << label << ": " << input.name;
    for (int again = 0; again < 6 && whole > kMeasurable && whole > 2.5 * half; ++again) {
      half = std::max(half, seconds(most / 2));
      whole = std::min(whole, seconds(most));
    }
    EXPECT_TRUE(whole <= kMeasurable || whole <= 2.5 * half)
        << label << ": " << input.name << " " << half << " " << whole;
  }
}

// Cutting alone: how long merging takes does not depend on it.
TEST(TokenizerFaults, B1_LinearForEveryPreTokenizer) {
  SmallVocabulary vocabulary;
  vocabulary.add_letters();
  std::set<const void*> seen;
  for (const PreTokenizerRow& row : pre_tokenizer_rows()) {
    if (!seen.insert(row.expressions.data()).second) continue;
    auto tokenizer = make_tokenizer(vocabulary.source("gpt2", row.name));
    ASSERT_TRUE(tokenizer) << row.name << tokenizer.error().line();
    check_linear(**tokenizer, std::string(row.name), kInputs);
  }
}

class ReferenceVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(ReferenceVocabulary, B1_Linear) {
  const std::string path = std::string("vectors/vocab/") + GetParam() + ".gguf";
  MARTLET_NEEDS_SHARED(path);
  auto file = ModelFile::open(shared_path(path));
  ASSERT_TRUE(file) << file.error().line();
  auto tokenizer = Tokenizer::create(**file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().line();
  check_linear(**tokenizer, GetParam(), std::span(kInputs).first(kNamedByB1));
}

INSTANTIATE_TEST_SUITE_P(TokenizerFaults, ReferenceVocabulary,
                         testing::Values("deepseek-llm", "gemma-4", "gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2",
                                         "qwen35", "starcoder"));

}  // namespace
}  // namespace martlet
