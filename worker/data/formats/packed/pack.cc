#include "worker/data/formats/packed/pack.h"

#include <string>

#include "worker/data/formats/packed/pack_writer.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {

Result<PackReport> pack(const SampleSet& set, const std::filesystem::path& path,
                        const PackOptions& options, const OnProgress& on_progress) {
  PHUB_ASSIGN_OR_RETURN(const auto writer, PackWriter::create(path, {.classes = set.classes(),
                                                                     .source = set.fingerprint(),
                                                                     .resume = options.resume}));
  PackReport report{.samples = set.samples(), .kept = writer->samples()};
  std::vector<std::uint8_t> buffer;
  while (goes_on(on_progress,
                 {.samples = writer->samples(), .of = report.samples, .bytes = report.bytes})) {
    const std::uint64_t sample = writer->samples();
    if (sample == report.samples) {
      PHUB_RETURN_IF_ERROR(writer->finish());
      return report;
    }
    PHUB_ASSIGN_OR_RETURN(const auto bytes, set.read(sample, buffer));
    PHUB_RETURN_IF_ERROR(writer->append(bytes, set.label(sample), set.name(sample)));
    report.bytes += bytes.size();
  }
  return Status(Code::kAborted, printable(path) + " is not written yet: stopped after " +
                                    std::to_string(writer->samples()) + " of " +
                                    std::to_string(report.samples) +
                                    " samples; run it again to go on there");
}

}  // namespace phub::data
