"""Categories of kernels by their names, as seen on GPUs, and sums over a step by hand."""

import pytest

from benchmarks.device_time import Kernel, category, covered, report, rows

NAMES = {
    "nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_TNT": "matrix products",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn>": (
        "matrix products"
    ),
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64": "matrix products",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float>": "matrix products",
    "triton_tem_fused_addmm_gelu_3": "matrix products",
    "aten::addmm": "matrix products",
    "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_7_64x128x64": "attention",
    "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<>": "attention",
    "fmha_cutlassF_bf16_aligned_64x128_rf_sm80": "attention",
    "triton_poi_fused_addmm_gelu_view_2": "elementwise and norms",
    "triton_red_fused_add_native_layer_norm_native_layer_norm_backward_mm_4": (
        "elementwise and norms"
    ),
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>": (
        "elementwise and norms"
    ),
    "triton_red_fused__log_softmax_view_0": "cross entropy",
    "triton_red_fused__to_copy_add_amax_arange_eq_exp_log_slice_sub_sum_where_5": "cross entropy",
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, float>": "cross entropy",
    "multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>": (
        "optimizer, norm and clipping"
    ),
    "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "collectives",
    "Memcpy DtoD (Device -> Device)": "copies",
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>": "copies",
    "something else": "other",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_kernels_name_tells_its_category(name: str) -> None:
    assert category(name) == NAMES[name]


def kernel(name: str, start: float, end: float) -> Kernel:
    return Kernel(name, start, end, end - start)


# Two steps of 100 us: a product beside a longer collective, and a copy that stands alone.
STEPS = [
    kernel("nvjet_a", 0, 40),
    kernel("ncclDevKernel_AllGather", 20, 60),
    kernel("Memcpy HtoD", 70, 80),
    kernel("nvjet_a", 100, 140),
    kernel("ncclDevKernel_AllGather", 110, 130),
]


def test_covered_is_a_union() -> None:
    assert covered(STEPS) == 60 + 10 + 40
    assert covered(reversed(STEPS)) == 110
    assert covered([]) == 0


def test_rows_are_of_a_step() -> None:
    products, collectives, copies = rows(STEPS, [category(k.name) for k in STEPS], 100, 2)
    assert products == ("matrix products", 0.04, 40, 1)
    assert collectives == ("collectives", 0.03, 30, 1)
    assert copies == ("copies", 0.005, 5, 0.5)


def test_report_tells_idle_and_collectives_that_nothing_hides() -> None:
    text = report(STEPS, 100, 2, 1)
    assert "     0.045   45.0           idle" in text
    assert "     0.010   10.0           (of collectives, beside nothing)" in text
    assert "     0.040   40.0        1  nvjet_a  [matrix products]" in text


def test_operators_within_operators_count_once() -> None:
    outer, inner = Kernel("aten::linear", 0, 50, 10), Kernel("aten::addmm", 5, 45, 40)
    text = report([outer, inner], 50, 1, 1)
    assert "     0.050  100.0        2  matrix products" in text
    assert "     0.000    0.0           idle" in text
