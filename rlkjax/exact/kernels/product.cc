// The product of matrices that contraction.py defines, for CPUs: the same bits, in one pass.
//
// XLA calls it as a custom call, with its own threads. Which instructions it uses, and how many
// threads share the work, changes no bit: every sum in it is exact.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "half_slab.h"
#include "parts.h"
#include "plan.h"
#include "processor.h"
#include "shared_work.h"
#include "short_dots.h"
#include "slab.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace rlkjax {

// What one thread does at a time.
struct Task {
  enum Step { kSlabs, kPeaks, kSums, kEnd } step;
  Product product;  // the first of `matrices` that lie one after the other
  int64_t matrices;
  Slab slab;
  int64_t place, part;  // numbers of the slab, and of the part of its terms
  Parts parts;
  bool halves = false;  // whether the processor adds products of 16-bit halves
};

// `add_terms` is called in one place: it is most of the library.
template <int W, int MR>
INLINE void take_step(const Task& task) {
  const Scratch scratch;
  if (task.step == Task::kPeaks) return peaks_of_part<W>(task.product, task.parts, task.part);
  if (task.step == Task::kEnd)
    return add_parts<W>(task.product, task.slab, task.parts, task.place, scratch);
  const bool cut = task.step == Task::kSums;
  const int64_t all = task.product.left.terms;
  const Terms terms = cut ? task.parts.terms_of(task.part, all) : Terms{0, all};
  const Words words = cut ? task.parts.words_at(task.place, task.part) : scratch.words;
  for (int64_t matrix = 0; matrix < task.matrices; matrix++) {
    const Product product = product_at(task.product, matrix);
#if defined(__x86_64__)
    if constexpr (W == 8 && MR == 1)
      if (!cut && short_dots(product, task.slab, scratch)) continue;
#endif
    const Ranges ranges = cut ? ranges_of_parts(product, task.slab, task.parts, scratch)
                            : ranges_found<W>(product, task.slab, scratch);
#if defined(__x86_64__)
    if constexpr (W == 8 && MR > 1) {
      if (task.halves && fits_halves(terms, ranges)) {
        add_terms_by_halves(product, task.slab, terms, ranges, words, scratch);
        continue;
      }
    }
#endif
    add_terms<W, MR>(product, task.slab, terms, ranges, words, scratch);
  }
}

template <int W, int MR>
INLINE void take(const Task& task) {
  if (task.product.left.rows == 1)
    take_step<W, 1>(task);
  else
    take_step<W, MR>(task);
}

TARGET_8 void take_8(const Task& task) { take<8, 8>(task); }

void take_16(const Task& task) {
  Task by_halves = task;
  by_halves.halves = true;
  take_8(by_halves);
}

TARGET_4 void take_4(const Task& task) { take<4, 4>(task); }

void take_2(const Task& task) { take<2, 4>(task); }

// Slab number `place` of a product.
Slab slab_at(const Product& product, const Plan& plan, int64_t place) {
  const int64_t across = pieces_of(product.right.rows, plan.columns);
  const int64_t row = place / across * plan.rows, column = place % across * plan.columns;
  return {row, std::min(plan.rows, product.left.rows - row), column,
          std::min(plan.columns, product.right.rows - column)};
}

// The two sides changed, if the right one has one row: the result lies in memory as it did.
Product turned(Product product) {
  if (product.right.rows == 1) std::swap(product.left, product.right);
  for (Side* side : {&product.left, &product.right}) side->terms_last |= side->rows == 1;
  return product;
}

// Slab by slab, or many small products at once.
template <typename Take, typename Pool>
void multiply_slabs(Pool& pool, int64_t threads, const Product& first, int64_t batch,
                    const Plan& plan, Take take) {
  const int64_t slabs =
      pieces_of(first.left.rows, plan.rows) * pieces_of(first.right.rows, plan.columns);
  const int64_t together = std::max<int64_t>(1, slabs == 1 ? kPiece / work_of(first) : 1);
  in_parallel(pool, threads, pieces_of(batch, together) * slabs, [=](int64_t piece) {
    const int64_t matrix = piece / slabs * together, place = piece % slabs;
    take(Task{Task::kSlabs, product_at(first, matrix), std::min(together, batch - matrix),
              slab_at(first, plan, place), place, 0, {}});
  });
}

// One product, its terms cut into parts.
template <typename Take, typename Pool>
void multiply_parts(Pool& pool, int64_t threads, const Product& product, const Plan& plan,
                    Take take) {
  const int64_t slabs =
      pieces_of(product.left.rows, plan.rows) * pieces_of(product.right.rows, plan.columns);
  const int64_t terms = pieces_of(pieces_of(product.left.terms, plan.parts), kBlock) * kBlock;
  const int64_t count = pieces_of(product.left.terms, terms);
  const int64_t rows = pieces_of(std::min(plan.rows, product.left.rows), kFilled) * kFilled;
  const std::unique_ptr<int32_t[]> peaks(
      new int32_t[count * (product.left.rows + product.right.rows)]);
  const std::unique_ptr<double[]> words(new double[slabs * count * 2 * rows * Words::kStride]);
  const Parts parts{count, terms, peaks.get(), words.get(), rows};
  const auto step = [=](Task::Step kind, int64_t place, int64_t part) {
    take(Task{kind, product, 1, slab_at(product, plan, place), place, part, parts});
  };
  in_parallel(pool, threads, count, [=](int64_t part) { step(Task::kPeaks, 0, part); });
  in_parallel(pool, threads, slabs * count,
              [=](int64_t piece) { step(Task::kSums, piece / count, piece % count); });
  in_parallel(pool, threads, slabs, [=](int64_t place) { step(Task::kEnd, place, 0); });
}

ffi::Error multiply_all(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> lhs, ffi::Buffer<ffi::F32> rhs,
                        ffi::ResultBuffer<ffi::F32> result, bool lhs_terms_last,
                        bool rhs_terms_last, bool on_grid, int64_t lanes, int64_t shares) {
  const auto side = [](const ffi::Buffer<ffi::F32>& x, bool terms_last) {
    const auto sizes = x.dimensions();
    return Side{x.typed_data(), sizes[terms_last ? 1 : 2], sizes[terms_last ? 2 : 1], terms_last};
  };
  const Product first = turned(
      {side(lhs, lhs_terms_last), side(rhs, rhs_terms_last), result->typed_data(), on_grid});
  const int64_t batch = lhs.dimensions()[0];
  if (first.left.terms == 0) std::fill_n(result->typed_data(), result->element_count(), 0.0f);
  if (first.left.terms == 0 || result->element_count() == 0) return ffi::Error::Success();
  const bool alone = batch * work_of(first) < kAlone;
  const int64_t wanted = shares > 0 ? shares : alone ? 1 : pool.num_threads();
  const int64_t threads = std::max<int64_t>(1, wanted);
  const Plan plan = best_plan(first, batch, threads);
  const auto take =
      lanes >= 16 && has_16() ? take_16 : widest(lanes, take_8, take_4, take_2);
  if (plan.parts == 1)
    multiply_slabs(pool, threads, first, batch, plan, take);
  else
    for (int64_t i = 0; i < batch; i++)
      multiply_parts(pool, threads, product_at(first, i), plan, take);
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
                                  .Attr<bool>("on_grid")
                                  .Attr<int64_t>("lanes")
                                  .Attr<int64_t>("shares"));
