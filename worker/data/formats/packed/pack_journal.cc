#include "worker/data/formats/packed/pack_journal.h"

#include <algorithm>
#include <cstring>

#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

constexpr std::string_view kJournalMagic = "PHUBJRNL";
constexpr std::uint32_t kJournalVersion = 1;
constexpr std::uint64_t kEntriesAtOnce = 4096;

struct JournalHeader {
  char magic[8] = {};
  std::uint32_t version = kJournalVersion;
  std::uint32_t pack_version = kPackVersion;
  std::uint64_t source = 0;
  std::uint32_t classes = 0;
  std::uint32_t names_crc = 0;
  std::uint32_t reserved = 0;
  std::uint32_t crc = 0;  // of the bytes before
};
static_assert(sizeof(JournalHeader) == 40);

struct JournalEntry {
  PackEntry entry;
  std::uint32_t number = 0;  // the sample's, so that no entry counts in another's place
  std::uint32_t crc = 0;     // of the bytes before
};
static_assert(sizeof(JournalEntry) == 32);

template <typename T>
std::uint32_t crc_before(const T& value) {
  return crc32c(bytes_of(value).first(offsetof(T, crc)));
}

JournalHeader header_of(const PackSource& source) {
  JournalHeader header;
  std::memcpy(header.magic, kJournalMagic.data(), kJournalMagic.size());
  header.source = source.number;
  header.classes = source.classes;
  header.names_crc = source.names_crc;
  header.crc = crc_before(header);
  return header;
}

std::uint64_t offset_of(std::uint64_t entry) {
  return sizeof(JournalHeader) + entry * sizeof(JournalEntry);
}

}  // namespace

Result<PackJournal> PackJournal::open(const std::filesystem::path& path, const PackSource& source) {
  PHUB_ASSIGN_OR_RETURN(PartialFile file, PartialFile::open(path));
  PackJournal journal(std::move(file));
  journal.classes_ = source.classes;
  const JournalHeader wanted = header_of(source);
  JournalHeader found;
  const bool is_whole =
      journal.file_.read(0, std::as_writable_bytes(std::span<JournalHeader, 1>(&found, 1))) &&
      std::memcmp(found.magic, kJournalMagic.data(), kJournalMagic.size()) == 0 &&
      found.crc == crc_before(found);
  if (is_whole && std::memcmp(&found, &wanted, sizeof(found)) != 0) {
    return Status(Code::kFailedPrecondition,
                  printable(path) +
                      " is of a pack of other samples or by another version, which did not end; "
                      "finish that one, or begin anew (`data pack --anew`, or remove this file)");
  }
  if (!is_whole) {
    PHUB_RETURN_IF_ERROR(journal.file_.cut(0));
    PHUB_RETURN_IF_ERROR(journal.file_.write(0, bytes_of(wanted)));
  }
  return journal;
}

std::vector<PackEntry> PackJournal::entries(std::uint64_t data_bytes) const {
  std::vector<PackEntry> kept;
  std::vector<JournalEntry> some;
  const std::uint64_t bytes = file_.bytes();
  const std::uint64_t in_file =
      std::min(kMaxSamples, (bytes - std::min(bytes, offset_of(0))) / sizeof(JournalEntry));
  std::uint64_t begin = sizeof(PackHeader);
  while (kept.size() < in_file) {
    some.resize(std::min(kEntriesAtOnce, in_file - kept.size()));
    if (!file_.read(offset_of(kept.size()),
                    std::as_writable_bytes(std::span<JournalEntry>(some)))) {
      return kept;
    }
    for (const JournalEntry& each : some) {
      const PackEntry& entry = each.entry;
      if (each.crc != crc_before(each) || each.number != kept.size() ||
          !is_right(entry, begin, classes_) || entry.end() > data_bytes) {
        return kept;
      }
      begin = entry.end();
      kept.push_back(entry);
    }
  }
  return kept;
}

Status PackJournal::keep(std::uint64_t entries) {
  entries_ = entries;
  return file_.cut(offset_of(entries));
}

Status PackJournal::append(std::span<const PackEntry> entries) {
  std::vector<JournalEntry> some;
  for (const PackEntry& entry : entries) {
    JournalEntry& added = some.emplace_back();
    added.entry = entry;
    added.number = static_cast<std::uint32_t>(entries_ + some.size() - 1);
    added.crc = crc_before(added);
  }
  PHUB_RETURN_IF_ERROR(
      file_.write(offset_of(entries_), std::as_bytes(std::span<const JournalEntry>(some))));
  entries_ += entries.size();
  return {};
}

}  // namespace phub::data
