#pragma once

#include <cstdint>
#include <utility>

namespace martlet {

// Handle of a step's intermediate: `rows` x `columns` values that live on a backend. Copies share the storage; when the
// last handle goes, the storage returns to its backend's pool. Used by the engine's thread only.
class Tensor {
 public:
  // Base of what a backend keeps for a tensor. recycle() is called when nobody holds it any more.
  class Storage {
   public:
    virtual void recycle() = 0;

   protected:
    ~Storage() = default;

   private:
    friend class Tensor;
    int references_ = 0;
  };

  Tensor() = default;
  Tensor(Storage* storage, int64_t rows, int64_t columns) : rows(rows), columns(columns), storage_(storage) {
    retain();
  }
  Tensor(const Tensor& other) : rows(other.rows), columns(other.columns), storage_(other.storage_) { retain(); }
  Tensor(Tensor&& other) noexcept
      : rows(other.rows), columns(other.columns), storage_(std::exchange(other.storage_, nullptr)) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(storage_, other.storage_);
    rows = other.rows;
    columns = other.columns;
    return *this;
  }
  ~Tensor() {
    if (storage_ && --storage_->references_ == 0) storage_->recycle();
  }

  Storage* storage() const { return storage_; }
  explicit operator bool() const { return storage_ != nullptr; }
  // Whether nobody else can read the storage: it may be written to in place.
  bool unique() const { return storage_ && storage_->references_ == 1; }

  int64_t rows = 0, columns = 0;

 private:
  void retain() {
    if (storage_) ++storage_->references_;
  }
  Storage* storage_ = nullptr;
};

}  // namespace martlet
