// A libnccl.so.2 for tests that is too old: it has a version and one more function.
extern "C" {

__attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  *version = 21304;
  return 0;
}

__attribute__((visibility("default"))) const char* ncclGetErrorString(int /*code*/) { return ""; }

}  // extern "C"
