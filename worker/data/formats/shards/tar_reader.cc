#include "worker/data/formats/shards/tar_reader.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "common/base/log_value.h"

namespace phub::data {
namespace {

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kMaxExtraBytes = 1ULL << 20U;  // a pax header or a long name
constexpr std::uint64_t kMaxEndBytes = 1ULL << 20U;    // of zeros behind the last member

// Where fields lie in a header: POSIX.1-2017, pax, "ustar Interchange Format".
struct Field {
  std::size_t begin;
  std::size_t bytes;
};
constexpr Field kName{0, 100};
constexpr Field kSize{124, 12};
constexpr Field kChecksum{148, 8};
constexpr std::size_t kType = 156;
constexpr Field kMagic{257, 6};
constexpr Field kPrefix{345, 155};

std::string_view field_of(std::string_view block, Field field) {
  return block.substr(field.begin, field.bytes);
}

// Up to the first NUL.
std::string_view text_of(std::string_view field) { return field.substr(0, field.find('\0')); }

std::uint64_t rounded_up(std::uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

// GNU's: the first bit, then a number whose first byte is the highest.
std::optional<std::uint64_t> binary_number(std::string_view field) {
  if (static_cast<unsigned char>(field[0]) != 0x80) return std::nullopt;  // negative, or 2^88
  std::uint64_t value = 0;
  for (const char c : field.substr(1)) {
    if ((value >> 54U) != 0) return std::nullopt;
    value = (value << 8U) | static_cast<unsigned char>(c);
  }
  return value;
}

// Octal digits between spaces, up to a NUL.
std::optional<std::uint64_t> number_of(std::string_view field) {
  if ((static_cast<unsigned char>(field[0]) & 0x80U) != 0) return binary_number(field);
  std::string_view text = text_of(field);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text = text.substr(0, text.find(' '));
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, 8);
  if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

bool has_right_checksum(std::string_view block) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool is_own = i >= kChecksum.begin && i < kChecksum.begin + kChecksum.bytes;
    sum += static_cast<unsigned char>(is_own ? ' ' : block[i]);
  }
  return number_of(field_of(block, kChecksum)) == sum;
}

std::string name_in(std::string_view block) {
  std::string name(text_of(field_of(block, kName)));
  // GNU's magic has a space here, and other fields in the prefix's place.
  if (field_of(block, kMagic) != std::string_view("ustar\0", 6)) return name;
  const std::string prefix(text_of(field_of(block, kPrefix)));
  return prefix.empty() ? name : prefix + '/' + name;
}

std::string_view as_text(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_zero(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

}  // namespace

Result<std::optional<TarMember>> TarReader::next() {
  while (true) {
    if (offset_ == file_->bytes()) {
      return file_->damaged(offset_, "the archive's end, a block of zeros, is missing");
    }
    PHUB_ASSIGN_OR_RETURN(const auto bytes, window_.at(offset_, kBlock));
    const std::string_view block = as_text(bytes);
    if (is_zero(block)) {
      PHUB_RETURN_IF_ERROR(check_end());
      return std::optional<TarMember>();
    }
    if (!has_right_checksum(block)) {
      if (offset_ == 0 && is_gzip(block)) {
        return file_->refused(0, "the archive is compressed; decompress it with gunzip");
      }
      return file_->damaged(offset_, "here should be a member's header, with its checksum");
    }
    const std::optional<std::uint64_t> size = number_of(field_of(block, kSize));
    if (!size) return file_->damaged(offset_, "the member's size is no number below 2^62");
    const char type = block[kType];
    TarMember member{.name = name_in(block), .offset = offset_ + kBlock, .bytes = *size};
    if (type == 'x' || type == 'g') {
      PHUB_RETURN_IF_ERROR(take_pax(member, type == 'g'));
    } else if (type == 'L' || type == 'K') {
      PHUB_RETURN_IF_ERROR(take_long_name(member, type == 'L'));
    } else {
      PHUB_ASSIGN_OR_RETURN(auto found, finish(std::move(member), type));
      if (found) return found;
    }
  }
}

Result<std::optional<TarMember>> TarReader::finish(TarMember member, char type) {
  if (said_.name) member.name = *said_.name;
  if (said_.bytes) member.bytes = *said_.bytes;
  said_ = {};
  const std::string shown = log_value(member.name);
  const bool is_file = type == '0' || type == '\0' || type == '7';
  if (type == '1' || type == '2' || type == 'S') {
    return file_->refused(member.offset - kBlock,
                          "member " + shown +
                              " is a link or a sparse file; make the archive with "
                              "the files themselves (tar --dereference "
                              "--hard-dereference)");
  }
  // Folders and devices have no content, whatever their size says.
  if (!is_file && type >= '3' && type <= '6') member.bytes = 0;
  const std::uint64_t left = file_->bytes() - member.offset;
  if (member.bytes > left || rounded_up(member.bytes) > left) {
    return file_->damaged(member.offset, "member " + shown + " has " +
                                             std::to_string(member.bytes) +
                                             " bytes by its header, but the file has " +
                                             std::to_string(left) + " more");
  }
  offset_ = member.offset + rounded_up(member.bytes);
  if (!is_file) return std::optional<TarMember>();
  return std::optional<TarMember>(std::move(member));
}

// GNU's L and K: the content is the next member's name, or what it is a link to.
Status TarReader::take_long_name(const TarMember& header, bool is_own) {
  if (header.bytes > kMaxExtraBytes) {
    return file_->refused(header.offset, "a name of " + std::to_string(header.bytes) +
                                             " bytes; the most is " +
                                             std::to_string(kMaxExtraBytes) + ": make it shorter");
  }
  PHUB_ASSIGN_OR_RETURN(const auto bytes, window_.at(header.offset, header.bytes));
  if (is_own) said_.name = std::string(text_of(as_text(bytes)));
  offset_ = header.offset + rounded_up(header.bytes);
  if (offset_ > file_->bytes()) return file_->damaged(header.offset, "the file ends in a name");
  return {};
}

// Records "LENGTH KEY=VALUE\n", where LENGTH counts the whole record.
Status TarReader::take_pax(const TarMember& header, bool is_global) {
  if (header.bytes > kMaxExtraBytes) {
    return file_->refused(header.offset, "a pax header of " + std::to_string(header.bytes) +
                                             " bytes; the most is " +
                                             std::to_string(kMaxExtraBytes) +
                                             ": make the archive without such attributes");
  }
  PHUB_ASSIGN_OR_RETURN(const auto bytes, window_.at(header.offset, header.bytes));
  std::string_view rest = as_text(bytes);
  while (!rest.empty()) {
    std::size_t length = 0;
    const char* const begin = rest.data();
    const auto [stop, error] = std::from_chars(begin, begin + rest.size(), length);
    const auto digits = static_cast<std::size_t>(stop - begin);
    if (error != std::errc{} || digits == rest.size() || *stop != ' ' || length > rest.size() ||
        length < digits + 2 || rest[length - 1] != '\n') {
      return file_->damaged(header.offset, "the pax header has a record of no right length");
    }
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    PHUB_RETURN_IF_ERROR(take_record(record, is_global));
    rest.remove_prefix(length);
  }
  offset_ = header.offset + rounded_up(header.bytes);
  if (offset_ > file_->bytes()) return file_->damaged(header.offset, "the file ends in a header");
  return {};
}

Status TarReader::take_record(std::string_view record, bool is_global) {
  const std::size_t equals = record.find('=');
  if (equals == std::string_view::npos) {
    return file_->damaged(offset_, "the pax header has a record without a value");
  }
  const std::string_view key = record.substr(0, equals);
  const std::string_view value = record.substr(equals + 1);
  const bool is_path = key == "path";
  const bool is_size = key == "size";
  const bool is_sparse = key.starts_with("GNU.sparse.");
  if (is_sparse || ((is_path || is_size) && is_global)) {
    return file_->refused(offset_, "a pax header says " + log_value(key) +
                                       (is_sparse ? " (a sparse file)" : " for all members") +
                                       "; make the archive without it");
  }
  if (is_path) said_.name = std::string(value);
  if (!is_size) return {};
  std::uint64_t bytes = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, bytes);
  if (error != std::errc{} || stop != end || (bytes >> 62U) != 0) {
    return file_->damaged(offset_, "the pax header's size is no number below 2^62");
  }
  said_.bytes = bytes;
  return {};
}

// Behind the first block of zeros are more of them, and nothing else.
Status TarReader::check_end() {
  if (said_.name || said_.bytes) {
    return file_->damaged(offset_, "a pax header or a long name has no member behind it");
  }
  const std::uint64_t left = file_->bytes() - offset_;
  bool is_empty = left <= kMaxEndBytes;
  if (is_empty) {
    PHUB_ASSIGN_OR_RETURN(const auto bytes, window_.at(offset_, left));
    is_empty = is_zero(as_text(bytes));
  }
  if (is_empty) return {};
  return file_->refused(offset_, "the archive ends here, but the file goes on for " +
                                     std::to_string(left) +
                                     " bytes; split archives that were joined");
}

}  // namespace phub::data
