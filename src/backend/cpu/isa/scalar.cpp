// The scalar level: no vector extensions beyond the architecture's base, so it is the reference for all the others.

#include "backend/cpu/isa/scalar.h"
#include "backend/cpu/isa/portable.h"
#include "backend/cpu/kernels/attention_body.h"
#include "backend/cpu/kernels/linear_run.h"
#include "backend/cpu/kernels/vectors_body.h"

namespace martlet::cpu {

const Level kScalar = {"scalar", [] { return true; }, &linear_kernels<Scalar>, &attention_kernels<Scalar>,
                       &vector_kernels<Scalar>};

}  // namespace martlet::cpu
