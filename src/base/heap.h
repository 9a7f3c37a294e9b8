#pragma once

namespace martlet {

// Once, at the start of the program: a freed block of a mebibyte or more goes back to the system at once. Left alone,
// some allocators learn from the largest block that was ever freed, and keep tens of mebibytes in every thread from
// then on.
void return_large_blocks();
// Hands back what is free inside the heap. Takes milliseconds: for after something unusually large.
void give_back_free_memory();

}  // namespace martlet
