#pragma once

namespace martlet::cpu {

bool has_dot_product();
bool has_matrix_multiply();  // and the dot product

}  // namespace martlet::cpu
