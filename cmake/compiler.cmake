# No -march: vector levels are chosen at run time, in target regions of the files under backend/cpu/isa.
foreach(option -Wall -Wextra -Wno-missing-field-initializers -fno-math-errno -ffp-contract=off)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${option}>)
endforeach()
if(MARTLET_SANITIZE)
  add_compile_options(-fsanitize=${MARTLET_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MARTLET_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    add_compile_options(-fno-sanitize=function)  # clang 14 cannot emit its prologue for a coroutine
  endif()
endif()
if(MARTLET_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage feedback from every room
endif()
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
