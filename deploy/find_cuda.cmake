# Decides PHUB_HAVE_CUDA: whether the CUDA backend (kernels/cuda, worker/cuda) is built. It is a
# plug-in of its own, so everything else is the same with and without it.
#
# AUTO builds it where nvcc and cuDNN's headers are, but not under sanitizers or for fuzzing: nvcc
# takes neither, and no test of theirs reaches it.
set(PHUB_HAVE_CUDA OFF)
if(PHUB_CUDA_BACKEND STREQUAL "ON" OR (PHUB_CUDA_BACKEND STREQUAL "AUTO" AND NOT PHUB_SANITIZE AND NOT PHUB_FUZZ))
  find_package(CUDAToolkit 12 QUIET)
  find_path(PHUB_CUDNN_INCLUDE cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(CUDAToolkit_NVCC_EXECUTABLE AND PHUB_CUDNN_INCLUDE)
    set(PHUB_HAVE_CUDA ON)
  elseif(PHUB_CUDA_BACKEND STREQUAL "ON")
    message(FATAL_ERROR "PHUB_CUDA_BACKEND is ON: install the CUDA toolkit (nvcc: "
      "'${CUDAToolkit_NVCC_EXECUTABLE}') and cuDNN 9's headers (cudnn_graph.h: "
      "'${PHUB_CUDNN_INCLUDE}'), or name their folder in CMAKE_PREFIX_PATH")
  else()
    message(STATUS "No CUDA toolkit with cuDNN 9 found: the CUDA backend is not built")
  endif()
endif()

if(PHUB_HAVE_CUDA)
  find_path(PHUB_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  message(STATUS "CUDA ${CUDAToolkit_VERSION}, cuDNN's headers in ${PHUB_CUDNN_INCLUDE}, NCCL's in "
    "${PHUB_NCCL_INCLUDE}")
  # Hopper's own code, and an intermediate one for what comes before and after it.
  set(CMAKE_CUDA_ARCHITECTURES 90a-real 80-virtual)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  add_library(phub_cudnn_headers INTERFACE)
  target_include_directories(phub_cudnn_headers SYSTEM INTERFACE
    ${CUDAToolkit_INCLUDE_DIRS} ${PHUB_CUDNN_INCLUDE})
endif()
