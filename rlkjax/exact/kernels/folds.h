// One number from all those of a vector, half by half.
#pragma once

#include <cstdint>
#include <cstring>

#include "vectors.h"

namespace rlkjax {

template <typename T>
INLINE T larger(T a, T b) {
  return a > b ? a : b;
}

template <int W>
INLINE int32_t largest(typename Vectors<W>::Bits bits) {
  if constexpr (W > 2) {
    typename Vectors<W / 2>::Bits halves[2];
    std::memcpy(halves, &bits, sizeof bits);
    return largest<W / 2>(larger(halves[0], halves[1]));
  } else {
    return bits[0] > bits[1] ? bits[0] : bits[1];
  }
}

// Bits of magnitudes. Integers order like them, and NaN comes last.
template <int W>
INLINE typename Vectors<W>::Integer sizes(typename Vectors<W>::Double numbers) {
  return (typename Vectors<W>::Integer)numbers & INT64_MAX;
}

// The largest of these magnitudes, or NaN.
template <int W>
INLINE double largest_size(typename Vectors<W>::Integer sizes) {
  if constexpr (W > 2) {
    typename Vectors<W / 2>::Integer halves[2];
    std::memcpy(halves, &sizes, sizeof sizes);
    return largest_size<W / 2>(larger(halves[0], halves[1]));
  } else {
    const int64_t bits = sizes[0] > sizes[1] ? sizes[0] : sizes[1];
    double size;
    std::memcpy(&size, &bits, sizeof size);
    return size;
  }
}

// The sums of the even and of the odd numbers of a vector.
template <int W>
INLINE typename Vectors<2>::Double two_totals(typename Vectors<W>::Double numbers) {
  if constexpr (W > 2) {
    typename Vectors<W / 2>::Double halves[2];
    std::memcpy(halves, &numbers, sizeof numbers);
    return two_totals<W / 2>(halves[0] + halves[1]);
  } else {
    return numbers;
  }
}

// The sum of all numbers of a vector.
template <int W>
INLINE double total(typename Vectors<W>::Double numbers) {
  const typename Vectors<2>::Double sums = two_totals<W>(numbers);
  return sums[0] + sums[1];
}

}  // namespace rlkjax
