// cuDNN for tests without a GPU: the library, and an H200 that is only described.
#pragma once

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "worker/cuda/cudnn/library.h"
#include "worker/cuda/cudnn/target.h"

namespace phub::nn::cuda::testing {

inline std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  REQUIRE(in);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class Planner {
 public:
  Planner() {
    auto library = CudnnLibrary::open({});
    INFO(library.error().message());
    REQUIRE(library);
    library_ = std::move(*library);
    auto target = another();
    INFO(target.error().message());
    REQUIRE(target);
    target_ = std::move(*target);
  }

  const CudnnTarget& target() const { return *target_; }
  Result<std::unique_ptr<CudnnTarget>> another() const {
    return CudnnTarget::described(*library_,
                                  text_of(std::filesystem::path(PHUB_DEVICES) / "h200.json"));
  }

 private:
  std::unique_ptr<CudnnLibrary> library_;
  std::unique_ptr<CudnnTarget> target_;
};

}  // namespace phub::nn::cuda::testing
