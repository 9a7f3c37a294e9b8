#pragma once

#include "martlet/engine.h"
#include "plan/planner.h"

namespace martlet {

// What of an engine's options its plan depends on, but for the draft model.
PlanOptions plan_options_of(const EngineOptions& options);
// What Engine::create would take. Errors: those of model_needs and make_plan.
Result<Plan> plan_engine(const ModelFile& file, const Backend& backend, const Ceiling& ceiling,
                         const EngineOptions& options);

}  // namespace martlet
