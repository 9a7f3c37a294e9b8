#include "martlet/engine.h"

#include <fmt/format.h>

#include "draft/model_drafter.h"
#include "draft/ngram_drafter.h"
#include "draft/same_vocabulary.h"
#include "engine/draft_speculator.h"
#include "engine/engine_thread.h"
#include "engine/options.h"
#include "file/model_file.h"

namespace martlet {
namespace {

constexpr int32_t kMostHistory = 1 << 24;  // tokens; about 50 bytes each

Error bad_option(const char* text, const char* flag) {
  return {ErrorKind::usage, "invalid_value", text, flag};
}

Status validate(const EngineOptions& options, const Backend& backend) {
  if (options.context < 0) return bad_option("must be 0 (chosen) or more", "--context");
  if (options.max_sequences < 1 || options.max_sequences >= backend.max_rows())
    return bad_option("must be at least 1 and less than the rows of one step", "--max-sequences");
  if (options.max_queue < 0) return bad_option("must be 0 or more", "--max-queue");
  if (options.memory_ceiling < 0) return bad_option("must be 0 (found out) or more", "--memory");
  if (options.streams < 0) return bad_option("must be 0 (chosen) or more", "--streams");
  if (options.prompt_cache < 0) return bad_option("must be 0 or more", "--prompt-cache");
  if (options.prefill_chunk < 1) return bad_option("must be at least 1", "prefill_chunk");
  if (options.max_tenant_requests < 0) return bad_option("must be 0 (no limit) or more", "--max-key-requests");
  if (!(options.tpot_target >= 0)) return bad_option("must be 0 (found out) or more", "--tpot-target");
  const Speculation& rule = options.speculation;
  if (rule.mode == Speculation::Mode::fixed && (rule.length < 1 || rule.length > kMaxDraft))
    return bad_option("a fixed length must be at least 1 and at most 16", "--speculation");
  if (options.ngram_history < 0 || options.ngram_history > kMostHistory)
    return bad_option("must be 0 (none) to 16777216", "--draft-history");
  if (options.ngram_history > 0 && !options.ngram) return bad_option("needs --draft ngram", "--draft-history");
  if (options.draft_model && options.ngram) return bad_option("a draft model and ngram cannot both draft", "--draft");
  return {};
}

// What drafts for the engine's sequences, for Parts::open_speculator; empty where nothing does.
std::function<Result<std::unique_ptr<Speculator>>(Backend&)> speculator_of(const EngineOptions& options,
                                                                           int32_t vocabulary,
                                                                           const ModelDrafter::Options& limits) {
  const auto speculator = [rule = options.speculation, vocabulary](std::unique_ptr<Drafter> drafter) {
    return std::unique_ptr<Speculator>(std::make_unique<DraftSpeculator>(std::move(drafter), rule, vocabulary));
  };
  if (options.ngram)
    return [speculator, history = options.ngram_history](Backend&) -> Result<std::unique_ptr<Speculator>> {
      return speculator(std::make_unique<NgramDrafter>(history));
    };
  if (!options.draft_model) return {};
  return [speculator, limits, file = options.draft_model](Backend& backend) -> Result<std::unique_ptr<Speculator>> {
    MARTLET_ASSIGN(const Hyperparameters h, read_hyperparameters(*file));
    MARTLET_ASSIGN(std::unique_ptr<Model> model, Model::create(file, h, backend, limits.pages));
    return speculator(std::make_unique<ModelDrafter>(backend, std::move(model), limits));
  };
}

}  // namespace

PlanOptions plan_options_of(const EngineOptions& options) {
  return {.context = options.context,
          .max_sequences = options.max_sequences,
          .prefill_chunk = options.prefill_chunk,
          .streams = options.streams,
          .prompt_cache = options.prompt_cache,
          .server_bytes = options.server_bytes,
          .cache_type = options.cache_type};
}

Result<Plan> plan_engine(const ModelFile& file, const Backend& backend, const Ceiling& ceiling,
                         const EngineOptions& options) {
  MARTLET_ASSIGN(const ModelNeeds needs, model_needs(file, backend));
  PlanOptions plan_options = plan_options_of(options);
  std::optional<ModelNeeds> draft;
  if (options.draft_model) {
    MARTLET_ASSIGN(draft, model_needs(*options.draft_model, backend));
    plan_options.draft = &*draft;
  }
  return make_plan(needs, backend, ceiling, plan_options);
}

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const ModelFile> file, std::unique_ptr<Backend> backend,
                                               const EngineOptions& options) {
  MARTLET_TRY(validate(options, *backend));
  if (options.draft_model) MARTLET_TRY(same_vocabulary(*file, *options.draft_model));
  MARTLET_ASSIGN(const Hyperparameters h, read_hyperparameters(*file));
  const PlanOptions plan_options = plan_options_of(options);
  EngineThread::Parts parts;
  MARTLET_ASSIGN(parts.plan, plan_engine(*file, *backend, memory_ceiling(options.memory_ceiling, *backend), options));
  const StepLimits limits = step_limits(*backend, plan_options, parts.plan.context);
  backend->limit(limits);
  backend->spare(parts.plan.copies);
  const int32_t pages = pool_pages(parts.plan, *backend);
  parts.scheduler = {.page_tokens = backend->page_tokens(),
                     .pages = pages,
                     .context = parts.plan.context,
                     .max_sequences = options.max_sequences,
                     .prefill_chunk = options.prefill_chunk,
                     .max_rows = limits.rows,
                     .tpot_target = options.tpot_target,
                     .prefix_cache = options.prefix_cache};
  parts.max_queue = options.max_queue;
  parts.max_tenant_requests = options.max_tenant_requests;
  parts.vocabulary = h.vocabulary;
  parts.backend = std::move(backend);
  parts.open_model = [file, h, pages, type = options.cache_type](Backend& b) {
    return Model::create(file, h, b, pages, type);
  };
  parts.open_speculator = speculator_of(
      options, h.vocabulary,
      {pages, parts.scheduler.max_rows, [draft_file = options.draft_model] { return draft_file->unchanged(); }});
  parts.note = options.note;
  if (!options.cache_dir.empty()) {
    const uint64_t fingerprint =
        cache_fingerprint(*file, fmt::format("{} {}", parts.backend->name(), name_of(options.cache_type)));
    parts.cache_file = CacheFile{fmt::format("{}/{:016x}.kv", options.cache_dir, fingerprint), fingerprint,
                                 parts.scheduler.page_tokens, h.vocabulary};
  }
  parts.weights_intact = [file] { return file->unchanged(); };
  return EngineThread::start(std::move(parts));
}

}  // namespace martlet
