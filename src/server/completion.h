#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/exchange.h"
#include "server/access_log.h"
#include "server/answer_format.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace martlet::server {

// One completion request on its way: submits a sequence for each choice, turns their tokens into JSON, and cancels them
// when the client leaves. Engine threads only put into its mailbox; everything else happens on the I/O thread.
class Completion : public std::enable_shared_from_this<Completion> {
 public:
  using Clock = std::chrono::steady_clock;
  struct Setup {
    // Let go before any answer is out, refusals too: whoever has it may ask for a model that needs this one's memory.
    std::shared_ptr<const ServedModel> model;
    std::shared_ptr<net::Exchange> exchange;
    std::function<void(std::function<void()>)> post;  // to the I/O thread
    Metrics* metrics = nullptr;
    AccessLog* log = nullptr;  // null: nobody wants to know
    Endpoint endpoint = Endpoint::chat;
    int32_t tenant = 0;
    Clock::time_point arrived;
  };

  // Any thread. Answers with the engine's refusal, or goes on by itself until the answer is complete.
  static void start(Setup setup, ApiRequest request, std::vector<std::vector<Token>> prompts);

  Completion(Setup setup, ApiRequest request, std::vector<std::vector<Token>> prompts);

 private:
  class Sink;
  struct Event {
    size_t choice;
    std::vector<Emitted> tokens;
    std::optional<Finish> finish;
  };
  struct Choice {
    ChoiceText text;
    Delta kept;           // what a whole answer collects
    bool echoes = false;  // the prompt is still to be shown
    Finish finish;
    const char* reason = nullptr;   // the finish_reason, once it is known
    bool ended = false;             // the engine is done with it
    Clock::time_point first, last;  // of its tokens
  };

  Status submit();
  Request engine_request(size_t choice) const;
  // The engine reports the prompt's tokens: for their scores, or because nothing but the prompt is wanted.
  bool scores_prompt() const { return request_.echo && (request_.logprobs || request_.max_tokens == 0); }
  void deliver(Event event);  // engine thread
  void later(void (Completion::*turn)());
  void guarded(void (Completion::*turn)());
  void begin();
  void take_mail();
  void handle(Event& event);
  void begin_echo(size_t index, Delta& out);
  void add_tokens(size_t index, const std::vector<Emitted>& tokens, Delta& out);
  void end_choice(size_t index, Delta& out);
  void emit(size_t index, Delta delta, bool last);
  void fail(const Error& error);
  void complete();
  void cancel_all();
  void let_go();  // of choices that run, and of the model; may be repeated
  AnswerUsage usage() const;
  void observe(const Choice& choice);
  void over(std::string_view outcome);

  Setup setup_;
  ApiRequest request_;
  std::vector<std::vector<Token>> prompts_;
  std::unique_ptr<AnswerFormat> format_;
  AnswerHeader header_;
  std::vector<Choice> choices_;
  std::vector<RequestId> ids_;  // set before begin()
  bool begun_ = false, over_ = false;

  std::mutex mutex_;
  std::vector<Event> mailbox_;
};

}  // namespace martlet::server
