#pragma once

#include "base/error.h"
#include "file/model_file.h"

namespace martlet {

// Whether a token id means the same to both models, which is all that drafting needs: merges, templates and end tokens
// may differ. One may have more tokens where those are not used by any text. Errors: ErrorKind::usage,
// `draft_vocabulary` with the first difference, `--draft`.
Status same_vocabulary(const ModelFile& target, const ModelFile& draft);

}  // namespace martlet
