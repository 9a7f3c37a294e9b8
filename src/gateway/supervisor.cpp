#include "gateway/supervisor.h"

#include <algorithm>
#include <filesystem>
#include <thread>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace martlet::gateway {

namespace asio = boost::asio;
using std::chrono::milliseconds;

namespace {

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
constexpr milliseconds kLook{50};                                // how soon an end is noticed
constexpr milliseconds kFirstPause{500}, kLongestPause{30'000};  // before a restart, doubled each time ...
constexpr std::chrono::seconds kLongRun{60};                     // ... until the program ran for so long

std::string with_port(std::string word, uint16_t port) {
  constexpr std::string_view kPort = "{port}";
  for (size_t at = word.find(kPort); at != word.npos; at = word.find(kPort, at)) {
    word.replace(at, kPort.size(), std::to_string(port));
  }
  return word;
}

// Nothing new is sent to an instance for as long as this lives, whatever the administrator wants meanwhile.
class Retiring {
 public:
  explicit Retiring(Dispatcher::Instance& instance) : instance_(instance) { instance.retiring = true; }
  Retiring(const Retiring&) = delete;
  ~Retiring() { instance_.retiring = false; }

 private:
  Dispatcher::Instance& instance_;
};

}  // namespace

struct Supervisor::Worker {
  size_t instance = 0;
  int number = 0;  // among the instances of its upstream
  std::unique_ptr<net::ChildProcess> process;
  milliseconds pause = kFirstPause;
  bool started_before = false;
};

Supervisor::Supervisor(Core& core) : core_(core) {
  const auto& instances = core.dispatcher.instances();
  for (size_t i = 0; i < instances.size(); ++i) {
    if (!core.upstreams[instances[i].upstream].config.supervised()) continue;
    auto worker = std::make_unique<Worker>();
    worker->instance = i;
    worker->number = i > 0 && instances[i - 1].upstream == instances[i].upstream ? workers_.back()->number + 1 : 0;
    workers_.push_back(std::move(worker));
  }
}

Supervisor::~Supervisor() {
  stop();
}

Status Supervisor::prepare() {
  if (workers_.empty()) return {};
  std::error_code ec;
  std::filesystem::create_directories(core_.config.log_dir, ec);
  if (ec) return Error{ErrorKind::io, "cannot_open", "the folder for logs cannot be made", core_.config.log_dir};
  return {};
}

void Supervisor::start() {
  for (const auto& worker : workers_) {
    core_.run_until_done([this, w = worker.get()] { return look_after(*w); });
  }
}

bool Supervisor::wanted(const Worker& worker) const {
  return allowed_ || core_.upstreams[core_.dispatcher.instances()[worker.instance].upstream].config.bounded;
}

asio::awaitable<void> Supervisor::pause(milliseconds time) {
  asio::steady_timer timer(*core_.io, time);
  co_await timer.async_wait(kTuple);
}

std::string Supervisor::log_of(const Worker& worker) const {
  return core_.config.log_dir + "/" + core_.upstream_of(worker.instance).config.name + "-" +
         std::to_string(worker.number) + ".log";
}

bool Supervisor::launch(Worker& worker) {
  Dispatcher::Instance& instance = core_.dispatcher.instances()[worker.instance];
  const UpstreamConfig& config = core_.upstreams[instance.upstream].config;
  const Result<uint16_t> port = net::free_port();
  if (!port) return core_.note(instance.upstream, {port.error().text}), false;
  std::vector<std::string> command;
  for (const std::string& word : config.command) command.push_back(with_port(word, *port));
  auto peer = std::make_shared<net::HttpPeer>("127.0.0.1", *port);
  auto process = net::ChildProcess::start(command, log_of(worker));
  if (!process) return core_.note(instance.upstream, {process.error().text, ": ", process.error().where}), false;
  worker.process = std::move(*process);
  instance.breaker.reset();
  instance.preparing = true;
  instance.warm_buckets = 0;
  core_.peers[worker.instance] = std::move(peer);
  if (std::exchange(worker.started_before, true)) core_.metrics.restarted(instance.upstream);
  core_.note(instance.upstream, {"started"});
  return true;
}

asio::awaitable<void> Supervisor::look_after(Worker& worker) {
  while (!core_.closing) {
    if (!wanted(worker)) {
      co_await pause(kLook);
      continue;
    }
    const Time began = core_.now();
    co_await run_once(worker);
    if (core_.closing) co_return;
    if (core_.now() - began >= kLongRun) worker.pause = kFirstPause;
    if (!wanted(worker)) continue;
    co_await pause(worker.pause);
    worker.pause = std::min(2 * worker.pause, kLongestPause);
  }
}

// Once the gateway closes, the processes are stop()'s alone.
bool Supervisor::runs(const Worker& worker) const {
  return !core_.closing && !worker.process->ended();
}

// From a start to the end of that process, whoever brings it about.
asio::awaitable<void> Supervisor::run_once(Worker& worker) {
  // One may run already: whoever looked after it found no memory to go on with.
  const bool launched = worker.process || launch(worker);
  if (!launched) co_return;
  Dispatcher::Instance& instance = core_.dispatcher.instances()[worker.instance];
  const size_t upstream = instance.upstream;
  const Time late = core_.now() + core_.upstreams[upstream].config.timeouts.start;
  while (runs(worker)) {
    const bool stuck = instance.breaker.state() == Breaker::State::starting && core_.now() > late;
    if (stuck) core_.note(upstream, {"does not come up (", core_.not_up[worker.instance], "): started again"});
    if (stuck || !wanted(worker)) {
      co_await retire(worker);
      break;
    }
    co_await pause(kLook);
  }
  if (core_.closing) co_return;
  const int status = worker.process->ended().value_or(0);
  worker.process.reset();
  core_.peers[worker.instance] = nullptr;
  instance.breaker.reset();
  core_.note(upstream, {"ended with status ", std::to_string(status), "; what it wrote is in ", log_of(worker)});
  core_.settle();
}

// Lets running requests finish, within bounds, then ends the process.
asio::awaitable<void> Supervisor::retire(Worker& worker) {
  Dispatcher::Instance& instance = core_.dispatcher.instances()[worker.instance];
  const milliseconds grace = core_.upstreams[instance.upstream].config.timeouts.stop;
  const Retiring retiring(instance);
  core_.note(instance.upstream, {"stopping"});
  core_.settle();
  Time end = core_.now() + grace;
  while (runs(worker) && instance.running > 0 && core_.now() < end) co_await pause(kLook);
  if (core_.closing) co_return;
  worker.process->terminate();
  end = core_.now() + grace;
  while (runs(worker) && core_.now() < end) co_await pause(kLook);
  if (core_.closing) co_return;
  worker.process->kill();
}

void Supervisor::stop() {
  milliseconds grace{0};
  for (const auto& worker : workers_) {
    if (!worker->process) continue;
    worker->process->terminate();
    grace = std::max(grace, core_.upstream_of(worker->instance).config.timeouts.stop);
  }
  const Time end = core_.now() + grace;
  const auto runs = [](const auto& worker) { return worker->process && !worker->process->ended(); };
  while (std::any_of(workers_.begin(), workers_.end(), runs) && core_.now() < end) std::this_thread::sleep_for(kLook);
  for (const auto& worker : workers_) worker->process.reset();
}

}  // namespace martlet::gateway
