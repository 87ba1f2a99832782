# The cards that one plugin can serve, as far as its nvcc knows them: spills.py reads these two lines, too.
set(CUDA_ARCHITECTURES_12_4 80 86 89 90a)
set(CUDA_ARCHITECTURES_12_8 100 120)

# cuda_architectures(VERSION OUT): code for each, and PTX for those between and after: not the
# newest, which cards between cannot take, nor 90a, which no other card can.
function(cuda_architectures version out)
  set(known ${CUDA_ARCHITECTURES_12_4})
  if(version VERSION_GREATER_EQUAL 12.8)
    list(APPEND known ${CUDA_ARCHITECTURES_12_8})
  endif()
  list(TRANSFORM known APPEND -real)
  set(${out} ${known} 90-virtual PARENT_SCOPE)
endfunction()
