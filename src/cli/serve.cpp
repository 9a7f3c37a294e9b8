#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/out_of_memory.h"
#include "base/printable.h"
#include "cli/backends.h"
#include "cli/cache_type.h"
#include "cli/command.h"
#include "cli/draft_flags.h"
#include "cli/live_line.h"
#include "cli/memory_flags.h"
#include "cli/served_files.h"
#include "cli/stop_signals.h"
#include "hub/resolve.h"
#include "server/duration.h"
#include "server/server.h"

namespace martlet::cli {
namespace {

using server::Server;
using server::ServerOptions;

constexpr double kDrainSeconds = 30;
constexpr std::chrono::milliseconds kFailureCheck{250};  // how soon a model file that changed ends the server

struct Flags {
  std::vector<std::string> models;
  std::string folder, keep_alive = "-1", pressure = "system", log_format = "auto";
  ServerOptions server;
  LoadOptions load;
  DraftFlags draft;
  size_t max_body_mib = 16;
  double tpot_target_ms = 0;
};

void define_model_flags(CLI::App& app, Flags& flags) {
  app.add_option("model", flags.models,
                 "Models: .gguf files, hf:owner/repository[:file] or aliases; the first is loaded at once and called "
                 "\"default\". Absent: the default model");
  app.add_option("--models", flags.folder, "Serve every .gguf file of this folder too, each loaded on first use");
  app.add_option("--keep-alive", flags.keep_alive,
                 "How long an idle model stays loaded (300, 5m, 1h); negative: until its memory is wanted")
      ->capture_default_str();
  add_memory_flags(app, flags.load.engine);
  app.add_option("--cache-dir", flags.load.engine.cache_dir,
                 "Keep each model's prompt cache in this folder while the model is not loaded");
  app.add_option("--pressure", flags.pressure,
                 "Who says that the machine is short of memory: system, off, or file:PATH for rehearsals")
      ->capture_default_str();
  app.add_option("--max-sequences", flags.load.engine.max_sequences, "Requests of a model that run at once; more wait")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--max-queue", flags.load.engine.max_queue, "Requests that may wait; more get 429")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()))
      ->capture_default_str();
  app.add_option("--max-key-requests", flags.load.engine.max_tenant_requests,
                 "Requests of one API key that may run or wait; more get 429; 0: no limit of its own")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()))
      ->capture_default_str();
  app.add_option("--tpot-target", flags.tpot_target_ms,
                 "Milliseconds between the tokens of a stream while prompts of others are read; 0: 1.5 times a step "
                 "without prompts")
      ->check(CLI::Range(0.0, 60'000.0))
      ->capture_default_str();
  app.add_option("--backend", flags.load.backend, kBackendHelp)->capture_default_str();
  app.add_flag("--invariant", flags.load.invariant, kInvariantHelp);
  add_cache_type(app, flags.load.engine.cache_type);
  app.add_option("--threads", flags.load.threads, "Compute threads; 0: one for each physical core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

void define_http_flags(CLI::App& app, Flags& flags) {
  net::HttpServerOptions& http = flags.server.http;
  app.add_option("--host", http.host, "Address to listen on; others than this machine need --api-key")
      ->capture_default_str();
  app.add_option("--port", http.port, "Port to listen on; 0 takes a free one and prints it")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--api-key", flags.server.api_keys, "Key that requests must show; may be given several times")
      ->delimiter(',');
  app.add_option("--max-connections", http.max_connections, "Open connections; more get 503")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--max-body", flags.max_body_mib, "Largest request body in MiB; larger ones get 413")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_flag("--no-prefix-cache{false}", flags.load.engine.prefix_cache,
               "Compute every prompt anew, whatever earlier ones share with it: for measuring");
  add_draft_flags(app, flags.draft);
  app.add_flag("--chat-template-kwargs", flags.server.policy.template_kwargs,
               "Let requests pass variables to the chat template");
  app.add_option("--log-format", flags.log_format, "text, json (a line an event), or auto: text on a terminal")
      ->check(CLI::IsMember({"auto", "text", "json"}))
      ->capture_default_str();
}

Status prepare(Flags& flags) {
  for (const std::string& key : flags.server.api_keys) {
    if (key.empty()) return Error{ErrorKind::usage, "empty_key", "an API key must not be empty", "--api-key"};
  }
  if (!flags.load.engine.cache_dir.empty()) {
    // A file cannot say whose prompts it holds, and with two or more keys tenants are apart.
    if (flags.server.api_keys.size() > 1)
      return Error{ErrorKind::usage, "tenants_apart", "with two or more API keys no prompt cache is kept on disk",
                   "--cache-dir"};
    std::error_code error;
    std::filesystem::create_directories(flags.load.engine.cache_dir, error);
    if (error) return Error{ErrorKind::io, "io_error", "the folder for prompt caches cannot be made", "--cache-dir"};
  }
  const auto keep_alive = server::parse_duration(flags.keep_alive);
  if (!keep_alive)
    return Error{ErrorKind::usage, "invalid_value", "must be seconds, or a time such as 5m or 1h", "--keep-alive"};
  flags.server.keep_alive = *keep_alive;
  MARTLET_ASSIGN(flags.server.pressure, net::make_pressure_source(flags.pressure));
  const bool terminal = isatty(STDERR_FILENO) == 1;
  flags.server.http.parser.body_bytes = flags.max_body_mib << 20;
  flags.server.json_log = flags.log_format == "json" || (flags.log_format == "auto" && !terminal);
  flags.server.live_line = terminal && !flags.server.json_log;
  flags.load.engine.tpot_target = flags.tpot_target_ms / 1000;
  flags.load.engine.server_bytes = server_bytes(flags.server.http.max_connections);
  return {};
}

// Models that were named are looked at now, so that what cannot be served is said at once; those of a folder when
// somebody asks for them. The first is loaded next, from what its plan has opened; the others are closed again.
Status add_models(Server& server, const Flags& flags, const Ceiling& ceiling) {
  bool first = true;
  const auto add = [&](const std::string& model, bool check) -> Status {
    LoadOptions options = flags.load;
    options.model = model;
    MARTLET_ASSIGN(const std::string path, resolve_model(model));
    auto source = served_file(options, path, ceiling, [&server](const std::string& text) { server.note(text); });
    if (check) MARTLET_TRY(std::exchange(first, false) ? source->plan({}) : plan_model(options, ceiling));
    return server.models().add(std::move(source));
  };
  for (const std::string& model : flags.models) MARTLET_TRY(add(model, true));
  if (flags.models.empty() && flags.folder.empty()) MARTLET_TRY(add("", true));
  if (flags.folder.empty()) return {};
  MARTLET_ASSIGN(const std::vector<std::string> files, model_files(flags.folder));
  for (const std::string& file : files) MARTLET_TRY(add(file, false));
  return {};
}

// Loads the first model that was named, and says what there is.
Result<std::string> ready_line(Server& server, const Flags& flags) {
  const size_t count = server.models().list().size();
  if (flags.models.empty() && !flags.folder.empty())
    return fmt::format("ready: {} serves {} models, each loaded when it is asked for", server.address(), count);
  MARTLET_ASSIGN(const server::ModelManager::Model model, server.models().acquire_now("default"));
  std::string out = fmt::format("ready: {} serves {} with a context of {} tokens", server.address(),
                                printable(model->name), model->engine->context());
  if (count > 1) out += fmt::format(" and {} more, loaded when asked for", count - 1);
  return out;
}

Status serve(Flags& flags) {
  MARTLET_TRY(prepare(flags));
  MARTLET_TRY(apply_draft_flags(flags.draft, flags.load.engine));
  StopSignals signals;
  MARTLET_ASSIGN(const Ceiling ceiling, ceiling_of(flags.load));
  flags.server.memory = ceiling.bytes;
  MARTLET_ASSIGN(const std::unique_ptr<Server> server, Server::start(flags.server));
  MARTLET_TRY(add_models(*server, flags, ceiling));
  server->note("listening on " + server->address());
  MARTLET_ASSIGN(const std::string ready, ready_line(*server, flags));
  server->open();
  signals.may_drain();
  std::printf("%s\n", ready.c_str());
  std::fflush(stdout);
  LiveLine live(*server);
  std::optional<Error> failure;
  while (!failure && !signals.wait_for(kFailureCheck)) {
    if_memory_allows([&] {
      failure = server->failure();
      if (flags.server.live_line) live.update();
    });
  }
  if (failure) return *failure;
  if (flags.server.live_line) live.wipe();
  if_memory_allows([&] { server->note("draining"); });
  insist([&] { server->drain(kDrainSeconds); });
  return {};
}

}  // namespace

Action define_serve(CLI::App& app) {
  const auto flags = std::make_shared<Flags>();
  define_model_flags(app, *flags);
  define_http_flags(app, *flags);
  return [flags] { return serve(*flags); };
}

}  // namespace martlet::cli
