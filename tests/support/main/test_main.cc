#include "tests/support/main/catch.h"

int main(int argc, char* argv[]) { return phub::testing::run_tests(argc, argv); }
