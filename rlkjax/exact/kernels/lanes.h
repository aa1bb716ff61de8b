// The lanes of an AVX-512 vector that are meant.
#pragma once

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>

#include "processor.h"
#include "vectors.h"

namespace rlkjax {

// The first `count` lanes, of at most 16.
TARGET_8 INLINE __mmask16 first_lanes(int64_t count) {
  return count >= 16 ? 0xffff : count <= 0 ? 0 : (1u << count) - 1;
}

}  // namespace rlkjax

#endif
