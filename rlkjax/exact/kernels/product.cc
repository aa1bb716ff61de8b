// The product of matrices that contraction.py defines, for CPUs: the same bits, in one pass.
//
// XLA calls it as a custom call, with its own threads. Which instructions it uses, and how many
// threads share the work, changes no bit: every sum in it is exact.

#include <algorithm>
#include <cstdint>

#include "shared_work.h"
#include "slab.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace rlkjax {

using Multiply = void (*)(const Product&, const Slab&);

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512dq,avx512vl,fma"))) void multiply_8(const Product& product,
                                                                         const Slab& slab) {
  multiply<8, 8>(product, slab);
}

__attribute__((target("avx2,fma"))) void multiply_4(const Product& product, const Slab& slab) {
  multiply<4, 4>(product, slab);
}

bool has_8() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}

bool has_4() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#endif

void multiply_2(const Product& product, const Slab& slab) { multiply<2, 4>(product, slab); }

// The widest that this processor has, of at most `lanes` numbers in a vector.
Multiply choose(int64_t lanes) {
#if defined(__x86_64__)
  if (lanes >= 8 && has_8()) return multiply_8;
  if (lanes >= 4 && has_4()) return multiply_4;
#endif
  return multiply_2;
}

constexpr int64_t kAlone = 1 << 18;  // products of numbers that one thread does as fast as several

struct Shape {
  int64_t rows, columns;
};

// Of a slab: so that there are two or more for each thread, but none so thin that putting numbers
// on their grid outweighs multiplying them. Rows are cut first, as they are packed once.
Shape slab_shape(int64_t batch, const Shape& whole, int64_t threads) {
  const auto share = [](int64_t size, int64_t parts, int64_t least) {
    return std::max(least, ((size + parts - 1) / parts + 7) / 8 * 8);
  };
  const int64_t rows = std::min(kSlabRows, share(batch * whole.rows, 2 * threads, 32));
  const int64_t pieces = batch * ((whole.rows + rows - 1) / rows);
  const int64_t columns = share(whole.columns, (2 * threads + pieces - 1) / pieces, 32);
  return {rows, std::min(kSlabColumns, columns)};
}

ffi::Error multiply_all(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> lhs, ffi::Buffer<ffi::F32> rhs,
                        ffi::ResultBuffer<ffi::F32> result, bool lhs_terms_last,
                        bool rhs_terms_last, int64_t lanes) {
  const auto left = lhs.dimensions(), right = rhs.dimensions();
  const int64_t batch = left[0], terms = left[lhs_terms_last ? 2 : 1];
  const int64_t rows = left[lhs_terms_last ? 1 : 2], columns = right[rhs_terms_last ? 1 : 2];
  const bool alone = batch * rows * columns * terms < kAlone;
  const int64_t threads = alone ? 1 : std::max<int64_t>(1, pool.num_threads());
  const auto [height, width] = slab_shape(batch, {rows, columns}, threads);
  const int64_t down = (rows + height - 1) / height, across = (columns + width - 1) / width;
  const float *x = lhs.typed_data(), *y = rhs.typed_data();
  float* out = result->typed_data();
  const Multiply multiply = choose(lanes);
  in_parallel(pool, threads, batch * down * across, [=, height = height, width = width](int64_t piece) {
    const int64_t matrix = piece / (down * across), place = piece % (down * across);
    const int64_t row = place / across * height, column = place % across * width;
    const Product product{{x + matrix * rows * terms, rows, terms, lhs_terms_last},
                          {y + matrix * columns * terms, columns, terms, rhs_terms_last},
                          out + matrix * rows * columns};
    multiply(product,
             {row, std::min(height, rows - row), column, std::min(width, columns - column)});
  });
  return ffi::Error::Success();
}

}  // namespace rlkjax

XLA_FFI_DEFINE_HANDLER_SYMBOL(RlkjaxProduct, rlkjax::multiply_all,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<bool>("lhs_terms_last")
                                  .Attr<bool>("rhs_terms_last")
                                  .Attr<int64_t>("lanes"));
