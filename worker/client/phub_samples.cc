// The order of samples, for C.
#include <new>

#include "common/samples/sample_stream.h"
#include "worker/client/phub_c.h"

struct phub_samples {
  phub::SampleStream stream;
};

phub_samples* phub_samples_new(uint64_t samples, uint64_t seed) {
  if (samples == 0 || samples > phub::SampleStream::kSamplesMax) return nullptr;
  return new (std::nothrow) phub_samples{phub::SampleStream(samples, seed)};
}

void phub_samples_destroy(phub_samples* samples) { delete samples; }

int phub_samples_read(const phub_samples* samples, uint64_t first, size_t count, uint32_t* out) {
  try {
    for (size_t i = 0; i < count; ++i) out[i] = samples->stream.at(first + i);
  } catch (const std::bad_alloc&) {
    return 1;
  }
  return 0;
}
