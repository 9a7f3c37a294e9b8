#include "cli/chat/generate.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <vector>

#include "cli/chat/interrupts.h"
#include "text/detokenizer.h"

namespace martlet::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPoll = std::chrono::milliseconds(20);  // how soon Ctrl-C is seen

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Hands tokens from the engine's thread to the one that writes them.
class QueueSink final : public RequestSink {
 public:
  struct Batch {
    std::vector<Token> tokens;
    std::optional<Finish> finish;
  };

  void on_tokens(std::span<const Emitted> tokens) override {
    const std::lock_guard lock(mutex_);
    for (const Emitted& emitted : tokens) {
      if (!emitted.stop) batch_.tokens.push_back(emitted.token);
    }
    changed_.notify_one();
  }

  void on_finish(const Finish& finish) override {
    const std::lock_guard lock(mutex_);
    batch_.finish = finish;
    changed_.notify_one();
  }

  // What has come; empty when nothing does within kPoll.
  Batch take() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPoll, [&] { return !batch_.tokens.empty() || batch_.finish; });
    return std::exchange(batch_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Batch batch_;
};

double rate(double count, double seconds) {
  return seconds > 0 ? count / seconds : 0;
}

// Empty where nothing drafts.
std::string summary_of_drafts(const DraftCounts& drafts) {
  std::string out;
  if (const int64_t drafted = drafts.drafted_tokens(); drafted > 0) {
    std::string shares;
    for (size_t j = 0; j < drafts.drafted.size() && drafts.drafted[j] > 0; ++j)
      shares += fmt::format("{}{:.0f}", j > 0 ? " " : "",
                            100.0 * static_cast<double>(drafts.accepted[j]) / static_cast<double>(drafts.drafted[j]));
    out = fmt::format(", {} of {} drafts right ({} % by position), price {:.2f} s", drafts.accepted_tokens(), drafted,
                      shares, drafts.price_seconds);
  }
  if (drafts.off_seconds > 0) out += fmt::format(", drafts off for {:.2f} s", drafts.off_seconds);
  return out;
}

}  // namespace

std::string Answer::summary() const {
  const Usage& usage = finish.usage;
  const int32_t read = usage.prompt_tokens - usage.cached_tokens;
  std::string cached = usage.cached_tokens > 0 ? fmt::format(", {} cached", usage.cached_tokens) : "";
  return fmt::format(
      "TTFT {:.2f} s, prefill {:.0f} tokens/s ({} tokens{}), decode {:.1f} tokens/s ({} tokens{}), effective "
      "{:.1f} tokens/s{}",
      first_token_seconds, rate(read, usage.prefill_seconds), read, cached,
      // The first token comes out of the prefill.
      rate(usage.output_tokens - 1, usage.decode_seconds), usage.output_tokens, summary_of_drafts(usage.drafts),
      rate(usage.output_tokens, seconds),
      interrupted                             ? " [stopped]"
      : finish.reason == FinishReason::length ? " [cut: -n or the context is reached]"
                                              : "");
}

Result<Answer> generate(const Loaded& model, Request request, bool continues,
                        const std::function<void(std::string_view)>& on_text) {
  const Interrupts interrupts;
  const Clock::time_point start = Clock::now();
  const auto sink = std::make_shared<QueueSink>();
  Detokenizer detokenizer(model.tokenizer, false, continues);
  Answer answer;
  MARTLET_ASSIGN(const RequestId id, model.engine->submit(std::move(request), sink));
  const auto show = [&](const std::string& text) {
    if (text.empty()) return;
    answer.text += text;
    on_text(text);
  };
  while (true) {
    const QueueSink::Batch batch = sink->take();
    if (!batch.tokens.empty() && answer.first_token_seconds == 0) answer.first_token_seconds = seconds_since(start);
    if (!answer.interrupted) {
      for (const Token token : batch.tokens) show(detokenizer.push(token));
    }
    if (batch.finish) {
      answer.finish = *batch.finish;
      break;
    }
    // An answer that cannot be written any more is not worth the work either.
    if ((interrupts.raised() || std::ferror(stdout)) && !answer.interrupted) {
      answer.interrupted = true;
      model.engine->cancel(id);
    }
  }
  show(detokenizer.finish());
  answer.seconds = seconds_since(start);
  if (answer.finish.error) return std::move(*answer.finish.error);
  return answer;
}

}  // namespace martlet::cli
