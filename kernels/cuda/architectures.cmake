# SPDX-License-Identifier: Apache-2.0
# The GPU architectures that one plugin supports, if its nvcc knows them. spills.py also reads these two lines.
set(CUDA_ARCHITECTURES_12_4 80 86 89 90a)
set(CUDA_ARCHITECTURES_12_8 100 120)

# cuda_architectures(VERSION OUT): machine code for each of them, and PTX for GPUs between and after them. The
# PTX is neither for the newest, which GPUs in between cannot use, nor for 90a, which no other GPU can use.
function(cuda_architectures version out)
  set(known ${CUDA_ARCHITECTURES_12_4})
  if(version VERSION_GREATER_EQUAL 12.8)
    list(APPEND known ${CUDA_ARCHITECTURES_12_8})
  endif()
  list(TRANSFORM known APPEND -real)
  set(${out} ${known} 90-virtual PARENT_SCOPE)
endfunction()
