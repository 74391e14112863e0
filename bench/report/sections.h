// What is shown of each kind of record that lies in a run's folder.
//
// Pure functions; any thread. The records come from files that anybody may have written: a field
// that is missing or of another type is a dash.
#pragma once

#include <string>
#include <string_view>

#include "bench/report/fields.h"
#include "bench/report/page.h"

namespace phub::bench::report {

using SectionMaker = Section (*)(const Records&);

// What a record is, by its content: the bench that wrote it ("exchange", "rack"), or "training",
// "profile", "device steps", "rounds", "machine"; "" if it is nothing that is known.
std::string kind_of(const Record& record);

// Null if the kind is not known. A maker wants at least one record.
SectionMaker section_maker(std::string_view kind);

// phub-bench
Section exchange_section(const Records& records);
Section chunks_section(const Records& records);
Section roof_section(const Records& records);
Section aggregate_section(const Records& records);
Section bars_section(const Records& records);
Section tenants_section(const Records& records);
Section transport_section(const Records& records);
Section rack_section(const Records& records);
Section replay_section(const Records& records);
Section simulate_section(const Records& records);
Section dollars_section(const Records& records);
// phub-worker
Section step_section(const Records& records);
Section training_section(const Records& records);
Section profile_section(const Records& records);
Section device_steps_section(const Records& records);
// phubctl trace
Section rounds_section(const Records& records);
// lscpu --json
Section machine_section(const Records& records);

// "AMD EPYC, family 26 model 2, 2 CPUs"
std::string processor_of(const Record& machine);

}  // namespace phub::bench::report
