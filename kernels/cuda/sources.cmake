# SPDX-License-Identifier: Apache-2.0
# The files of the CUDA plugin, for nvcc and for the emulator (tests/simt).
set(CUDA_KERNELS prep embed norm activate pool qkv_post ranks gemm_small gemm_wide strip route experts attn attn_any attn_d64 attn_d96
  attn_d128 attn_d256 attn_fp8 attn_fp8_any sample sample_select weights codes_put quantize)
list(TRANSFORM CUDA_KERNELS PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM CUDA_KERNELS APPEND .cu)
set(CUDA_HOST kernels/cuda/device kernels/cuda/gemm kernels/cuda/blas kernels/cuda/blas_tune
  kernels/cuda/blas_fp8 kernels/cuda/blas_strip kernels/cuda/blas_cache kernels/cuda/loader kernels/cuda/readers kernels/cuda/codes_load kernels/code_source kernels/cuda/nccl kernels/cuda/comm kernels/cuda/windows kernels/attn_plan kernels/op_check kernels/step base/status)
list(TRANSFORM CUDA_HOST PREPEND ${WEFT_ROOT}/)
list(TRANSFORM CUDA_HOST APPEND .c)
