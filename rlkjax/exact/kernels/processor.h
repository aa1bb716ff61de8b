// Which instructions this processor has. One library holds the kernels for all of them.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
// 8 and 4: float64 in a vector; 16: the same 8, and products of 16-bit integers
#define TARGET_16 __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,avx512vnni,fma")))
#define TARGET_8 __attribute__((target("avx512f,avx512dq,avx512vl,fma")))
#define TARGET_4 __attribute__((target("avx2,fma")))
#else
#define TARGET_8
#define TARGET_4
#endif

namespace rlkjax {

#if defined(__x86_64__)
inline bool has_8() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}

inline bool has_16() {
  return has_8() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni");
}

inline bool has_4() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
inline bool has_16() { return false; }

inline bool has_8() { return false; }

inline bool has_4() { return false; }
#endif

// The widest that this processor has, of at most `lanes` numbers in a vector.
template <typename Kernel>
Kernel widest(int64_t lanes, Kernel eight, Kernel four, Kernel two) {
  if (lanes >= 8 && has_8()) return eight;
  return lanes >= 4 && has_4() ? four : two;
}

}  // namespace rlkjax
