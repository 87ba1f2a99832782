# The cards that one plugin can serve, as far as its nvcc knows them: spills.py reads these two lines, too.
set(CUDA_ARCHITECTURES_12_4 80 86 89 90a)
set(CUDA_ARCHITECTURES_12_8 100 120)

# cuda_architectures(VERSION OUT): code for each, and PTX of the newest that later cards can take.
function(cuda_architectures version out)
  set(known ${CUDA_ARCHITECTURES_12_4})
  set(newest 90) # the features of 90a are in no later card
  if(version VERSION_GREATER_EQUAL 12.8)
    list(APPEND known ${CUDA_ARCHITECTURES_12_8})
    list(GET known -1 newest)
  endif()
  list(TRANSFORM known APPEND -real)
  set(${out} ${known} ${newest}-virtual PARENT_SCOPE)
endfunction()
