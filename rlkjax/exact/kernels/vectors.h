// Vectors of W numbers, in the extension that GCC and Clang share.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#define INLINE inline __attribute__((always_inline))
#define INLINED __attribute__((always_inline))  // a lambda, for the processor that calls it

namespace rlkjax {

template <int W, typename Number>
struct VectorOf {
  typedef Number Type __attribute__((vector_size(W * sizeof(Number))));
};

template <int W>
struct Vectors {
  typedef typename VectorOf<W, double>::Type Double;
  typedef typename VectorOf<W, int64_t>::Type Integer;
  typedef typename VectorOf<W, float>::Type Float;
  typedef typename VectorOf<W, int32_t>::Type Bits;
};

template <typename T>
INLINE T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
INLINE void store(void* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Calls fn with flags that are known when the call is compiled, so that no loop in it asks for them.
template <typename Fn>
INLINE void knowing(bool flag, const Fn& fn) {
  return flag ? fn(std::true_type()) : fn(std::false_type());
}

template <typename Fn>
INLINE void knowing(bool one, bool other, const Fn& fn) {
  knowing(one, [&](auto first) INLINED { knowing(other, [&](auto second) INLINED { fn(first, second); }); });
}

// A vector, of which nothing lies at `end` or beyond: zeros there.
template <typename T, typename Number>
INLINE T load_before(const Number* end, const Number* from) {
  constexpr int64_t kAll = sizeof(T) / sizeof(Number);
  if (end - from >= kAll) return load<T>(from);
  T value = T{};
  if (end > from) std::memcpy(&value, from, sizeof(Number) * (end - from));
  return value;
}

// The first `count` numbers of a vector, to memory.
template <typename Number, typename T>
INLINE void store_some(Number* to, T value, int64_t count) {
  constexpr int64_t kAll = sizeof(T) / sizeof(Number);
  if (count >= kAll)
    store(to, value);
  else
    std::memcpy(to, &value, sizeof(Number) * count);
}

// Where to take the vector of W numbers that holds number k of `size`: the last one overlaps the
// one before it, so that none is short unless all are.
template <int W>
INLINE int64_t start_of(int64_t k, int64_t size) {
  return k + W <= size || size < W ? k : size - W;
}

}  // namespace rlkjax
