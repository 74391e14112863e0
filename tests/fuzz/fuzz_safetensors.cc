// Any bytes as a safetensors file: tensors that own each byte once, or an error with the reason.
#include "common/tensors/safetensors.h"
#include "tests/fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const phub::fuzz::File input(data, size);
  const auto metadata = phub::read_safetensors_metadata(input.path());
  const auto file = phub::read_safetensors(input.path());
  if (!file) {
    if (file.error().message().empty()) std::abort();
    return 0;
  }
  std::size_t bytes = 0;
  for (const phub::NamedTensor& tensor : file->tensors) {
    std::uint64_t elements = 1;
    for (const std::uint64_t dimension : tensor.shape) elements *= dimension;
    if (elements != tensor.values.size()) std::abort();
    bytes += tensor.values.size() * sizeof(float);
  }
  if (bytes > size || !metadata || *metadata != file->metadata) std::abort();
  return 0;
}
