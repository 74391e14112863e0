// What tests on a GPU are told by their environment, as phub-worker is: PHUB_CUDA_PATH, the folder
// of cuDNN, and PHUB_ENGINE_CACHE, which ctest sets to a file that the tests of one build share.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace phub::nn::cuda::testing {

inline std::vector<std::filesystem::path> libraries() {
  const char* folder = std::getenv("PHUB_CUDA_PATH");
  if (folder == nullptr || *folder == '\0') return {};
  return {folder};
}

// Empty: nothing is remembered.
inline std::filesystem::path engine_cache() {
  const char* file = std::getenv("PHUB_ENGINE_CACHE");
  return file == nullptr ? std::filesystem::path() : std::filesystem::path(file);
}

}  // namespace phub::nn::cuda::testing
