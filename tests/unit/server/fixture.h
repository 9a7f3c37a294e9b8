#pragma once

#include <gtest/gtest.h>

#include "server/client.h"
#include "server/fake_engine.h"
#include "server/server.h"

namespace martlet::server {

// A server on a free port with one fake model.
class Fixture {
 public:
  explicit Fixture(ServerOptions options = {}, std::chrono::milliseconds step = std::chrono::milliseconds(0),
                   bool with_model = true) {
    options.http.port = 0;
    server_ = std::move(*Server::start(options));
    port_ = static_cast<uint16_t>(std::stoi(server_->address().substr(server_->address().rfind(':') + 1)));
    if (!with_model) return;
    auto engine = std::make_unique<FakeEngine>(step);
    engine_ = engine.get();
    model_ = std::make_shared<ServedModel>(
        ServedModel{"fake", 1, std::make_shared<FakeTokenizer>(), *ChatTemplate::parse(kTemplate), std::move(engine)});
    server_->serve(model_);
    while (ask(port_, "GET", "/health").status != 200) continue;
  }

  Answer post(const std::string& path, const std::string& body, const std::string& fields = {}) {
    return ask(port_, "POST", path, body, fields);
  }
  Answer get(const std::string& path, const std::string& fields = {}) { return ask(port_, "GET", path, {}, fields); }
  uint16_t port() const { return port_; }
  FakeEngine& engine() { return *engine_; }
  Server& server() { return *server_; }

 private:
  static constexpr const char* kTemplate = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}";
  uint16_t port_ = 0;
  FakeEngine* engine_ = nullptr;
  std::shared_ptr<ServedModel> model_;
  std::unique_ptr<Server> server_;
};

// Waits for something that other threads do, as long as a busy machine may need.
template <class Condition>
bool eventually(Condition condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace martlet::server
