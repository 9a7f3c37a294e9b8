#pragma once

// MARTLET_ADDRESS_SANITIZER and MARTLET_THREAD_SANITIZER are 1 in builds under them, as g++ and clang tell it.

#if defined(__has_feature)
#define MARTLET_HAS_FEATURE(name) __has_feature(name)
#else
#define MARTLET_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || MARTLET_HAS_FEATURE(address_sanitizer)
#define MARTLET_ADDRESS_SANITIZER 1
#else
#define MARTLET_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__) || MARTLET_HAS_FEATURE(thread_sanitizer)
#define MARTLET_THREAD_SANITIZER 1
#else
#define MARTLET_THREAD_SANITIZER 0
#endif
