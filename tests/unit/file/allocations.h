#pragma once

#include <cstddef>

// Bytes that operator new handed out since the program started, freed or not. Always 0 under a sanitizer, which has an
// operator new of its own.
size_t allocated_bytes();
