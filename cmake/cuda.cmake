# CUDA is optional: with -DMARTLET_CUDA=ON (preset release-cuda) the toolkit must be there.
option(MARTLET_CUDA "Build the CUDA backend" OFF)
if(MARTLET_CUDA)
  # Machine code from compute capability 8.0 to 9.0 (with the instructions that only 9.0 has) and, as PTX, for what is
  # newer.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 86-real 89-real 90a-real 90-virtual)
  endif()
  enable_language(CUDA)
  # The CMake of Debian 12 does not know that this compiler has the standard.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  find_package(CUDAToolkit 12.4 REQUIRED)
endif()

function(martlet_use_cuda target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  target_link_libraries(${target} PUBLIC CUDA::cudart_static CUDA::cublas)
endfunction()
