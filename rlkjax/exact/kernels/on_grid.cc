// Puts short columns on their grids once, for the many products that short_dots.h makes of them.
// The numbers stay float32. Where the processor has no such products, they stay as they are.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "processor.h"
#include "shared_work.h"
#include "short_dots.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace rlkjax {

// Columns of numbers that lie one after the other.
struct Columns {
  const float* data;
  int64_t count, terms;
};

typedef void (*PutOnGrid)(const Columns&, float*);

void leave(const Columns& columns, float* result) {
  std::copy_n(columns.data, columns.count * columns.terms, result);
}

#if defined(__x86_64__)

// 1.5 * 2^52 units of each of eight columns.
template <int V>
TARGET_8 INLINE __m512d shifts_of(const float* x, int64_t terms, int64_t count) {
  const __m512i lowest = _mm512_set1_epi64(kLowest);  // below, there are only zeros
  const __m512i peaks = _mm512_max_epi64(short_peaks<V>(x, terms, count), lowest);
  const __m512i exponents = _mm512_srli_epi64(peaks, 23) + _mm512_set1_epi64(1023 - 127 - kBits);
  const __m512d units = _mm512_castsi512_pd(_mm512_slli_epi64(exponents, 52));
  return _mm512_permutexvar_pd(in_order(), units * _mm512_set1_pd(kMagic));
}

// Eight numbers on their grid. Beside an infinity the largest finite ones would become infinite, and
// stay: all that matters of them then is that they are not zero.
TARGET_8 INLINE __m256 rounded(__m256 x, __m512d shift) {
  const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
  const __m256 normal =
      _mm256_maskz_mov_ps(_mm256_cmp_ps_mask(size, _mm256_set1_ps(0x1p-126f), _CMP_NLT_UQ), x);
  const __m256 done = _mm512_cvtpd_ps((_mm512_cvtps_pd(normal) + shift) - shift);
  const __m256 result = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), done);
  return _mm256_mask_mov_ps(
      done, _mm256_cmp_ps_mask(result, _mm256_set1_ps(INFINITY), _CMP_EQ_OQ), x);
}

// V: vectors of float64 that hold a column.
template <int V>
TARGET_8 void put_on_grid(const Columns& columns, float* result) {
  const int64_t terms = columns.terms;
  const __mmask8 meant = first_lanes(terms - 8 * (V - 1));
  for (int64_t column = 0; column < columns.count; column += kTogether) {
    const int64_t count = std::min<int64_t>(kTogether, columns.count - column);
    const float* x = columns.data + column * terms;
    float* to = result + column * terms;
    alignas(64) double shifts[kTogether];
    _mm512_store_pd(shifts, shifts_of<V>(x, terms, count));
    for (int64_t c = 0; c < count; c++, x += terms, to += terms) {
      const __m512d shift = _mm512_set1_pd(shifts[c]);
#pragma GCC unroll 8
      for (int k = 0; k < V - 1; k++)
        _mm256_storeu_ps(to + 8 * k, rounded(_mm256_loadu_ps(x + 8 * k), shift));
      const __m256 last = _mm256_maskz_loadu_ps(meant, x + 8 * (V - 1));
      _mm256_mask_storeu_ps(to + 8 * (V - 1), meant, rounded(last, shift));
    }
  }
}

constexpr PutOnGrid kPutOnGrid[] = {put_on_grid<1>, put_on_grid<2>, put_on_grid<3>,
                                    put_on_grid<4>, put_on_grid<5>, put_on_grid<6>,
                                    put_on_grid<7>, put_on_grid<8>};

void prepare_8(const Columns& columns, float* result) {
  (columns.terms > kShort ? leave : kPutOnGrid[(columns.terms - 1) / 8])(columns, result);
}

#else

constexpr PutOnGrid prepare_8 = leave;

#endif

constexpr int64_t kSpreadColumns = 512;  // that a thread takes at a time

ffi::Error on_grid_all(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x,
                       ffi::ResultBuffer<ffi::F32> result, int64_t lanes) {
  const auto sizes = x.dimensions();
  const Columns all{x.typed_data(), sizes[0], sizes[1]};
  float* const to = result->typed_data();
  if (x.element_count() == 0) return ffi::Error::Success();
  const PutOnGrid prepare = widest<PutOnGrid>(lanes, prepare_8, leave, leave);
  const int64_t pieces = (all.count + kSpreadColumns - 1) / kSpreadColumns;
  in_parallel(pool, std::max<int64_t>(1, pool.num_threads()), pieces, [=](int64_t piece) {
    const int64_t first = piece * kSpreadColumns, offset = first * all.terms;
    const int64_t count = std::min(kSpreadColumns, all.count - first);
    prepare({all.data + offset, count, all.terms}, to + offset);
  });
  return ffi::Error::Success();
}

}  // namespace rlkjax

XLA_FFI_DEFINE_HANDLER_SYMBOL(RlkjaxOnGrid, rlkjax::on_grid_all,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("lanes"));
