#include "worker/data/formats/sample_set.h"

#include "worker/data/formats/fingerprint.h"

namespace phub::data {

std::uint64_t SampleSet::fingerprint() const {
  Fingerprint number;
  for (std::uint64_t i = 0; i < samples(); ++i) number.add(name(i)).add(label(i));
  return number.value();
}

std::uint64_t SampleSet::content_number() const {
  Fingerprint number;
  for (const std::string& each : classes()) number.add(each);
  for (std::uint64_t i = 0; i < samples(); ++i) number.add(label(i));
  return number.value();
}

}  // namespace phub::data
