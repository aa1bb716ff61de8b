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

// The largest of W integers.
template <int W, typename Number>
INLINE Number largest(typename VectorOf<W, Number>::Type numbers) {
  if constexpr (W > 2) {
    typename VectorOf<W / 2, Number>::Type halves[2];
    std::memcpy(halves, &numbers, sizeof numbers);
    return largest<W / 2, Number>(larger(halves[0], halves[1]));
  } else {
    return larger(numbers[0], numbers[1]);
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
  const int64_t bits = largest<W, int64_t>(sizes);
  double size;
  std::memcpy(&size, &bits, sizeof size);
  return size;
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
