#include "kernels/reduce.h"
