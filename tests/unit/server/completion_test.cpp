// A completion without a connection: what it still holds when its answer is out.

#include "server/completion.h"

#include <deque>

#include "server/fixture.h"

namespace martlet::server {
namespace {

class Desk {
 public:
  Desk() {
    auto engine = std::make_unique<FakeEngine>(std::chrono::milliseconds(1));
    engine_ = engine.get();
    model_ = std::make_shared<const ServedModel>(
        ServedModel{"fake", 1, std::make_shared<FakeTokenizer>(), *ChatTemplate::parse("x"), std::move(engine)});
  }

  void start() {
    auto request = parse_api_request(
        boost::json::parse(R"({"prompt":"a","ignore_eos":true,"max_tokens":100000})").as_object(), Endpoint::text, {});
    const auto post = [this](std::function<void()> task) {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    };
    std::vector<std::vector<Token>> prompts(1, std::vector<Token>{'a', 'b'});
    Completion::start({model_, exchange_, post, &metrics_, nullptr, Endpoint::text, 0, Completion::Clock::now()},
                      std::move(*request), std::move(prompts));
  }
  // What the I/O thread does, until there is an answer.
  bool answered() {
    return eventually([&] {
      std::deque<std::function<void()>> tasks;
      {
        const std::lock_guard lock(mutex_);
        tasks.swap(tasks_);
      }
      for (const auto& task : tasks) task();
      return exchange_->status() != 0;
    });
  }
  FakeEngine& engine() { return *engine_; }
  int status() const { return exchange_->status(); }
  long holders() const { return holders_; }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> tasks_;
  Metrics metrics_;
  long holders_ = 0;  // of the model, this included, when the answer came
  std::shared_ptr<net::Exchange> exchange_ =
      std::make_shared<net::Exchange>(net::HttpRequest{}, size_t{1} << 20, [this] { holders_ = model_.use_count(); });
  FakeEngine* engine_ = nullptr;
  std::shared_ptr<const ServedModel> model_;  // the last: its engine calls what stands above
};

TEST(Completion, ARefusalOfTheEngineIsOutOnceTheModelIsLetGo) {
  Desk desk;
  desk.engine().full = true;
  desk.start();
  EXPECT_EQ(desk.status(), 429);
  EXPECT_EQ(desk.holders(), 1);
}

TEST(Completion, AFailureIsOutOnceTheModelIsLetGo) {
  Desk desk;
  desk.start();
  desk.engine().cancel(1);
  ASSERT_TRUE(desk.answered());
  EXPECT_EQ(desk.status(), 503);
  EXPECT_EQ(desk.holders(), 1);
}

}  // namespace
}  // namespace martlet::server
