#include "engine/engine_thread.h"

#include <new>
#include <utility>

#include "base/out_of_memory.h"

namespace martlet {
namespace {

constexpr std::chrono::milliseconds kIdleCheck{200};
constexpr int32_t kMostStarved = 3;
constexpr std::chrono::milliseconds kStarvedPause{1};  // whoever has the memory may be done with it by then

Error file_changed() {
  return {ErrorKind::io, "model_file_changed", "the model file was changed or cut short while in use; load it again",
          ""};
}

}  // namespace

Result<std::unique_ptr<Engine>> EngineThread::start(Parts parts) {
  std::unique_ptr<EngineThread> engine(new EngineThread(std::move(parts)));
  std::promise<Status> opened;
  std::future<Status> result = opened.get_future();
  engine->thread_ = std::thread([&, self = engine.get()] { self->run(opened); });
  MARTLET_TRY(result.get());
  return std::unique_ptr<Engine>(std::move(engine));
}

EngineThread::EngineThread(Parts parts)
    : parts_(std::move(parts)),
      mailbox_(int64_t{parts_.scheduler.max_sequences} + parts_.max_queue, parts_.max_tenant_requests),
      scheduler_(parts_.scheduler) {
  report();
}

EngineThread::~EngineThread() {
  insist([&] { mailbox_.close({ErrorKind::unavailable, "shutting_down", "the engine is shutting down", ""}); });
  mailbox_.stop();
  if (thread_.joinable()) thread_.join();
}

Result<RequestId> EngineThread::submit(Request request, std::shared_ptr<RequestSink> sink) {
  MARTLET_TRY(validate(request, context(), vocabulary(), static_cast<bool>(parts_.open_speculator)));
  return mailbox_.submit(std::move(request), std::move(sink));
}

void EngineThread::drain(double seconds) {
  mailbox_.close({ErrorKind::unavailable, "shutting_down", "the engine is shutting down", ""});
  const auto idle = [this] { return stats_.requests_finished == mailbox_.submitted(); };
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), idle)) return;
  mailbox_.cancel_all();
  changed_.wait(lock, idle);
}

EngineStats EngineThread::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void EngineThread::report() {
  mailbox_.ended(scheduler_.take_ended());
  EngineStats stats = scheduler_.stats();
  stats.failure = failure_;
  stats.shape_compilations = static_cast<uint64_t>(parts_.backend->shape_compilations());
  {
    const std::lock_guard lock(mutex_);
    stats_ = stats;
  }
  changed_.notify_all();
}

Status EngineThread::open() {
  MARTLET_ASSIGN(model_, parts_.open_model(*parts_.backend));
  if (parts_.open_speculator) {
    MARTLET_ASSIGN(speculator_, parts_.open_speculator(*parts_.backend));
    scheduler_.use(speculator_.get());
  }
  if (const std::string remark = parts_.backend->remark(); !remark.empty()) note(remark);
  return {};
}

Status EngineThread::open_within_memory() {
  try {
    MARTLET_TRY(open());
    if_memory_allows([&] { restore_cache(); });
    return {};
  } catch (const std::bad_alloc&) {
    return insist([] { return Status(out_of_memory()); });
  }
}

void EngineThread::close() {
  scheduler_.use(nullptr);
  speculator_.reset();
  if (model_) parts_.backend->close(model_->id());
  model_.reset();
  parts_.backend.reset();
}

void EngineThread::run(std::promise<Status>& opened) {
  Status status = open_within_memory();
  if (!status) close();
  const bool open = static_cast<bool>(status);
  if (open) insist([&] { report(); });
  opened.set_value(std::move(status));
  if (!open) return;
  while (turn()) continue;
  scheduler_.end_all(FinishReason::cancelled, nullptr);
  insist([&] { report(); });
  if (!failure_) if_memory_allows([&] { save_cache(); });
  close();
}

bool EngineThread::turn() {
  try {
    if (!receive()) return false;
    const bool worked = step();
    if (!worked) check_weights();
    report();
    if (!worked) mailbox_.wait(kIdleCheck);
    starved_ = 0;
  } catch (const std::bad_alloc&) {
    relieve();
  }
  return true;
}

// What only makes answers faster goes first, and the step is tried again; then whoever runs.
void EngineThread::relieve() {
  std::this_thread::sleep_for(kStarvedPause);
  if (++starved_ > kMostStarved) {
    scheduler_.starve();
    starved_ = 0;  // the next one gets as many turns
  } else {
    if_memory_allows([&] { give_way(); });
  }
}

void EngineThread::note(const std::string& text) {
  if (parts_.note) parts_.note(text);
}

// Prompts of tenant 0 alone: others are not told apart by what a file could hold.
void EngineThread::restore_cache() {
  if (!parts_.cache_file) return;
  parts_.cache_file->page_bytes = parts_.backend->page_bytes(model_->id(), 0);
  const auto write = [&](Page page, std::span<const std::byte> bytes) {
    parts_.backend->write_page(model_->id(), 0, page, bytes);
  };
  const Result<int32_t> pages = restore_prefixes(*parts_.cache_file, scheduler_.tree(), 0, scheduler_.pool(), write);
  if (!pages) return note(pages.error().text);
  if (*pages > 0) note("prompt cache restored: " + std::to_string(*pages) + " pages");
}

void EngineThread::save_cache() {
  if (!parts_.cache_file) return;
  const auto read = [&](Page page, std::span<std::byte> bytes) {
    parts_.backend->read_page(model_->id(), 0, page, bytes);
  };
  const Result<int32_t> pages = save_prefixes(*parts_.cache_file, scheduler_.tree(), 0, read);
  if (!pages) return note(pages.error().text);
  if (*pages > 0) note("prompt cache saved: " + std::to_string(*pages) + " pages");
}

bool EngineThread::receive() {
  Mailbox::Mail mail = mailbox_.take();
  for (Submission& submission : mail.submissions) scheduler_.submit(std::move(submission));
  for (const RequestId id : mail.cancels) scheduler_.cancel(id);
  if (mail.cancel_all) scheduler_.end_all(FinishReason::cancelled, nullptr);
  if (mail.stop) return false;
  if (mail.drop_cache)
    while (give_way()) continue;
  return true;
}

bool EngineThread::give_way() {
  if (speculator_ && speculator_->give_back()) return true;
  parts_.backend->discard(model_->id(), 0, scheduler_.drop_cache());
  return false;
}

bool EngineThread::step() {
  Step* step = scheduler_.next();  // admit, adopt, chunk, preempt; null when idle
  if (!step) return false;
  Backend& backend = *parts_.backend;
  const Clock::time_point begin = Clock::now();
  const Ticket ticket =
      backend.submit(model_->id(), step->batch, step->choices, [&] { return model_->forward(backend); });
  const Status status = backend.wait(ticket, step->chosen, step->top);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  check_weights();  // before anything computed from them is believed
  if (!status && status.error().kind == ErrorKind::io) fail(status.error());
  // Nothing of the step counts yet, so it can be tried again: see relieve().
  if (!failure_ && !status && status.error().code == "out_of_memory") throw std::bad_alloc();
  if (!failure_) scheduler_.commit(*step, status, seconds);  // append, emit, publish, free
  return true;
}

void EngineThread::check_weights() {
  if (!parts_.weights_intact()) fail(file_changed());
}

// Where there is no memory for the copies nothing has failed yet, and the cause is found again.
void EngineThread::fail(const Error& error) {
  Error refusal = error, failure = error;
  refusal.kind = ErrorKind::unavailable;
  mailbox_.close(std::move(refusal));
  scheduler_.end_all(FinishReason::error, &error);
  failure_ = std::move(failure);
}

}  // namespace martlet
