// The sum along axes that accumulate.py defines, for CPUs: the same bits, in one pass.

#include <algorithm>
#include <cstdint>

#include "processor.h"
#include "shared_work.h"
#include "sums.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace rlkjax {

TARGET_8 void sum_8(const Side& side, int64_t row, int64_t count, float* result) {
  sum_rows<8>(side, row, count, result);
}

TARGET_4 void sum_4(const Side& side, int64_t row, int64_t count, float* result) {
  sum_rows<4>(side, row, count, result);
}

void sum_2(const Side& side, int64_t row, int64_t count, float* result) {
  sum_rows<2>(side, row, count, result);
}

constexpr int64_t kSumAlone = 1 << 15;  // elements that one thread adds as fast as several

ffi::Error sum_all(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> result,
                   bool terms_last, int64_t lanes) {
  const auto sizes = x.dimensions();
  const Side side{x.typed_data(), sizes[terms_last ? 0 : 1], sizes[terms_last ? 1 : 0], terms_last};
  const bool alone = side.rows * side.terms < kSumAlone;
  const int64_t threads = alone ? 1 : std::max<int64_t>(1, pool.num_threads());
  const int64_t share = (side.rows + 2 * threads - 1) / (2 * threads);
  const int64_t together = std::min(kSumRows, std::max<int64_t>(8, (share + 7) / 8 * 8));
  float* sums = result->typed_data();
  const auto sum = widest(lanes, sum_8, sum_4, sum_2);
  in_parallel(pool, threads, (side.rows + together - 1) / together, [=](int64_t piece) {
    const int64_t row = piece * together;
    sum(side, row, std::min(together, side.rows - row), sums);
  });
  return ffi::Error::Success();
}

}  // namespace rlkjax

XLA_FFI_DEFINE_HANDLER_SYMBOL(RlkjaxSum, rlkjax::sum_all,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<bool>("terms_last")
                                  .Attr<int64_t>("lanes"));
