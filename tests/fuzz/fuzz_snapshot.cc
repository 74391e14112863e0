// Any bytes as a snapshot: a job that can be, whose copy has a plan's elements, or an error.
#include "server/snapshot/file.h"
#include "tests/fuzz/fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace phub;  // NOLINT(google-build-using-namespace)
  const fuzz::File input(data, size);
  const auto file = SafetensorsReader::open(input.path());
  if (!file) return 0;
  const auto head = server::head_of((*file)->metadata());
  if (!head) {
    if (head.error().message().empty()) std::abort();
    return 0;
  }
  if (head->round == 0 || head->spec.keys.empty()) std::abort();
  static_cast<void>(server::verify(**file, *head));
  PlanInput keys{
      .key_elements = {}, .chunk_bytes = head->spec.chunk_bytes, .cores_per_server = {2}};
  std::uint64_t elements = 0;
  for (const auto& key : head->spec.keys) {
    keys.key_elements.push_back(key.elements);
    if (key.elements > size) return 0;  // more than the input can hold
    elements += key.elements;
  }
  if (elements > size) return 0;
  const auto plan = make_plan(keys);
  if (plan) static_cast<void>(server::job_copy_from(**file, *head, *plan, 0));
  return 0;
}
