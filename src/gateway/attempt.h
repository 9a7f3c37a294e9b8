#pragma once

// One sending of a request to one instance, and the answer on its way to the client. A request has one attempt, a
// second when the first fails before its answer begins, or a second beside the first when that one keeps it waiting
// (hedging); whichever has something to say first answers.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "gateway/answer.h"
#include "gateway/body.h"
#include "gateway/core.h"
#include "gateway/signal.h"
#include "gateway/token_prompt.h"
#include "gateway/trace.h"
#include "gateway/tries.h"
#include "net/event_reader.h"
#include "net/exchange.h"
#include "net/http_call.h"
#include "net/http_message.h"

namespace martlet::gateway {

// The client's side of a request, which its attempts share.
struct Incoming {
  Incoming(Core& core, std::shared_ptr<net::Exchange> exchange, RequestFacts facts, size_t model);

  Core& core;
  const std::shared_ptr<net::Exchange> exchange;
  const RequestFacts facts;
  const size_t model;
  const Trace trace;
  const std::string body;
  const Time arrived = std::chrono::steady_clock::now();
  Signal taken;       // the client has taken bytes, or has left
  bool left = false;  // the client
  Tries tries;        // each attempt is one of them
  std::function<void()> has_speaker;

  // With the names of the request, and of who answers it.
  net::HttpResponse named(net::HttpResponse response, const Upstream* upstream) const;
};

// How an attempt ended.
struct Outcome {
  bool answered = false;  // the client has its answer from here, or has left
  // Otherwise; without a code: another attempt was faster. ErrorKind::request: this upstream cannot be asked for that.
  Error error;
  // The upstream's own, while another attempt ran: the client's if that one does not answer.
  std::optional<net::HttpResponse> refusal;
};

// An instance that was granted, as it was then. It counts the request until it is released, or this is gone; its
// breaker hears what became of it, or that nothing did.
class Granted {
 public:
  Granted(Core& core, size_t instance);
  Granted(Granted&& other) noexcept { swap(other); }
  Granted& operator=(Granted&& other) noexcept { return swap(other), *this; }
  ~Granted() { release(); }

  size_t instance() const { return instance_; }
  void succeeded();
  void failed(bool dead);
  void abandoned();
  void release();

 private:
  void swap(Granted& other) noexcept;
  Breaker& breaker() const { return core_->dispatcher.instances()[instance_].breaker; }

  Core* core_ = nullptr;  // null: released
  size_t instance_ = 0;
  Breaker::Era era_ = 0;
  bool judged_ = false;
};

class Attempt {
 public:
  // Is one of the request's tries from now on, with this patience: see Tries.
  Attempt(Incoming& incoming, Granted granted, Duration patience);

  // Once. The instance counts the request until this ends.
  boost::asio::awaitable<Outcome> run();
  void cancel() {
    if (call_) call_->cancel();
  }
  // It went out on a connection that was kept, which the peer may just have been closing.
  bool was_kept() const { return call_ && call_->was_kept(); }
  size_t upstream() const { return upstream_index_; }
  Tries::Id id() const { return id_; }

 private:
  boost::asio::awaitable<Outcome> relay(Verdict verdict, const net::HttpAnswerHead& head);
  boost::asio::awaitable<Outcome> relay_whole(int status);
  boost::asio::awaitable<Outcome> relay_stream();
  boost::asio::awaitable<Outcome> relay_refusal(const net::HttpAnswerHead& head);
  boost::asio::awaitable<void> hold_back();
  // Sends the events that are there; the error that ends the stream, if one does.
  std::optional<Error> pass_events(net::EventReader& reader);
  std::optional<Error> pass_event(net::Event event);
  net::HttpCallRequest request_for(std::string& body) const;
  // The client's body with token ids in the place of its text.
  boost::asio::awaitable<Result<std::string>> tokenized() const;
  bool is_chat() const;
  // The answer is good so far: false when another attempt's was first. Once the client has its beginning, spoke() tells
  // everybody else.
  bool speaks() { return incoming_.tries.speaks(id_); }
  void spoke();
  bool outrun() const { return incoming_.tries.outrun(id_); }
  Outcome failed(Error error);
  // It cannot be sent to this upstream; another may take it.
  Outcome refused(Error error);
  void judge(const Error& error);
  void learn(const AnswerFacts& facts);
  void learn_from_arrivals();
  void show_drafts();
  // An upstream that shows its own key in an answer does not get it past us.
  bool shows_key(std::string_view text) const;
  std::string model_json() const;

  Incoming& incoming_;
  Core& core_;
  Granted granted_;
  const Tries::Id id_;
  const size_t upstream_index_;
  Upstream& upstream_;
  std::shared_ptr<net::HttpCall> call_;
  std::optional<ChatShape> shape_;            // of answers to token ids, where the client asked for a chat
  bool drafting_ = false, reported_ = false;  // drafts were asked for; the answer counts them
  DraftEstimate arrivals_;
  bool held_back_ = false;  // the client took the answer slower than it came
  bool ended_ = false;      // the stream's own end was passed on
};

}  // namespace martlet::gateway
