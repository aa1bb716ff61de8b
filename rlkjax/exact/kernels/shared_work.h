// Work that several threads of a pool take piece by piece.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace rlkjax {

// The caller takes pieces like any other thread and waits only for those that have begun, so that
// it never waits for a thread that the pool does not give.
class SharedWork {
 public:
  SharedWork(int64_t pieces, std::function<void(int64_t)> piece)
      : pieces_(pieces), piece_(std::move(piece)) {}

  void take() {
    int64_t done = 0;
    for (int64_t i; (i = next_.fetch_add(1)) < pieces_; done++) piece_(i);
    if (done == 0 || done_.fetch_add(done) + done < pieces_) return;
    const std::lock_guard<std::mutex> guard(mutex_);
    all_done_.notify_all();
  }

  // Looks often before it sleeps: a piece takes less time than waking up.
  void wait() {
    for (int look = 0; look < kLooks; look++)
      if (finished()) return;
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [this] { return finished(); });
  }

 private:
  static constexpr int kLooks = 1 << 16;

  bool finished() const { return done_.load() == pieces_; }

  const int64_t pieces_;
  const std::function<void(int64_t)> piece_;
  std::atomic<int64_t> next_{0}, done_{0};
  std::mutex mutex_;
  std::condition_variable all_done_;
};

// Calls piece(0) ... piece(pieces - 1), on this thread and on up to `threads - 1` of the pool.
template <typename Pool>
void in_parallel(Pool& pool, int64_t threads, int64_t pieces, std::function<void(int64_t)> piece) {
  const auto work = std::make_shared<SharedWork>(pieces, std::move(piece));
  for (int64_t i = 1; i < std::min(threads, pieces); i++) pool.Schedule([work] { work->take(); });
  work->take();
  work->wait();
}

}  // namespace rlkjax
