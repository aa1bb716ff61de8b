// The product of matrices that contraction.py defines, for CPUs: the same bits, in one pass.
//
// XLA calls it as a custom call, with its own threads. Which instructions it uses, and how many
// threads share the work, changes no bit: every sum in it is exact.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "processor.h"
#include "shared_work.h"
#include "slab.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace rlkjax {

// The slab of some products that lie one after the other, the first of which is given.
template <int W, int MR>
INLINE void multiply_some(const Product& first, int64_t matrices, const Slab& slab) {
  const Scratch scratch;
  for (int64_t matrix = 0; matrix < matrices; matrix++) {
    const Product product = product_at(first, matrix);
    if (first.left.rows == 1)
      multiply<W, 1>(product, slab, scratch);
    else
      multiply<W, MR>(product, slab, scratch);
  }
}

TARGET_8 void multiply_8(const Product& first, int64_t matrices, const Slab& slab) {
  multiply_some<8, 8>(first, matrices, slab);
}

TARGET_4 void multiply_4(const Product& first, int64_t matrices, const Slab& slab) {
  multiply_some<4, 4>(first, matrices, slab);
}

void multiply_2(const Product& first, int64_t matrices, const Slab& slab) {
  multiply_some<2, 4>(first, matrices, slab);
}

constexpr int64_t kPacking = 8;      // putting a number on its grid takes as long as 8 products
constexpr int64_t kAlone = 1 << 18;  // work that one thread does as fast as several
constexpr int64_t kPiece = 1 << 16;  // work beside which taking a piece costs nothing

// Rows and columns of a slab: so that there are two or more for each thread, but none so thin that
// putting numbers on their grid outweighs multiplying them. Rows are cut first, as they are packed
// once. Columns for one row are read twice, from the cache.
Slab largest_slab(const Product& product, int64_t batch, int64_t threads) {
  const Side &left = product.left, &right = product.right;
  const auto share = [](int64_t size, int64_t parts, int64_t least) {
    return std::max(least, ((size + parts - 1) / parts + 7) / 8 * 8);
  };
  const int64_t rows = std::min(kSlabRows, share(batch * left.rows, 2 * threads, 32));
  const int64_t pieces = batch * ((left.rows + rows - 1) / rows);
  int64_t columns = share(right.rows, (2 * threads + pieces - 1) / pieces, 32);
  if (left.rows == 1) columns = std::min(columns, std::max<int64_t>(32, (1 << 16) / right.terms));
  return {0, rows, 0, std::min(kSlabColumns, columns)};
}

// One row, if any, is the left one: in memory the result lies alike.
Product turned(Product product) {
  if (product.right.rows == 1) std::swap(product.left, product.right);
  for (Side* side : {&product.left, &product.right}) side->terms_last |= side->rows == 1;
  return product;
}

ffi::Error multiply_all(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> lhs, ffi::Buffer<ffi::F32> rhs,
                        ffi::ResultBuffer<ffi::F32> result, bool lhs_terms_last,
                        bool rhs_terms_last, int64_t lanes) {
  const auto side = [](const ffi::Buffer<ffi::F32>& x, bool terms_last) {
    const auto sizes = x.dimensions();
    return Side{x.typed_data(), sizes[terms_last ? 1 : 2], sizes[terms_last ? 2 : 1], terms_last};
  };
  const Product first =
      turned({side(lhs, lhs_terms_last), side(rhs, rhs_terms_last), result->typed_data()});
  const int64_t batch = lhs.dimensions()[0], terms = first.left.terms;
  const int64_t rows = first.left.rows, columns = first.right.rows;
  if (batch == 0) return ffi::Error::Success();
  const int64_t work = terms * (rows * columns + kPacking * (rows + columns));
  const int64_t threads = batch * work < kAlone ? 1 : std::max<int64_t>(1, pool.num_threads());
  const Slab most = largest_slab(first, batch, threads);
  const int64_t down = (rows + most.rows - 1) / most.rows;
  const int64_t across = (columns + most.columns - 1) / most.columns;
  const int64_t together = std::max<int64_t>(1, down * across == 1 ? kPiece / work : 1);
  const int64_t pieces = (batch + together - 1) / together * down * across;
  const auto multiply = widest(lanes, multiply_8, multiply_4, multiply_2);
  in_parallel(pool, threads, pieces, [=](int64_t piece) {
    const int64_t matrix = piece / (down * across) * together, place = piece % (down * across);
    const int64_t row = place / across * most.rows, column = place % across * most.columns;
    multiply(product_at(first, matrix), std::min(together, batch - matrix),
             {row, std::min(most.rows, rows - row), column,
              std::min(most.columns, columns - column)});
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
