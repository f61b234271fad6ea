"""Programs in StableHLO's own text, of operations that JAX itself seldom writes: tests/hlo/jax_suite.py makes a model of each.

A row: name, text of a module, arguments, and options as in tests/hlo/jax_functions.py (rtol, atol).
"""
import numpy as np

from jax_functions import f32, i32

TEXTS = []


def text(name, body, *args, **options):
    TEXTS.append((name, body, args, options))


def main(name, types, result, lines, *args, **options):
    """A module of one function: its arguments' types, its result's types, and its lines."""
    given = ", ".join(f"%{i}: {t}" for i, t in enumerate(types))
    results = ", ".join(result)
    text(name, f"module {{ func.func public @main({given}) -> ({results}) {{\n" + "\n".join(lines) + "\n} }", *args, **options)


M = "tensor<3x3xf32>"
SPD = (lambda a: (a @ a.T + 3 * np.eye(3)).astype(np.float32))(f32(3, 3))

main("text_batch_norm", ["tensor<2x3x4xf32>", "tensor<3xf32>", "tensor<3xf32>", "tensor<3xf32>", "tensor<3xf32>"], ["tensor<2x3x4xf32>"],
     ['%r = "stablehlo.batch_norm_inference"(%0, %1, %2, %3, %4) {epsilon = 0.01 : f32, feature_index = 1 : i64} : '
      '(tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4xf32>', "return %r : tensor<2x3x4xf32>"],
     f32(2, 3, 4), f32(3), f32(3), f32(3), np.abs(f32(3)))
main("text_broadcast", ["tensor<3xf32>"], ["tensor<2x4x3xf32>"],
     ['%r = "stablehlo.broadcast"(%0) {broadcast_sizes = array<i64: 2, 4>} : (tensor<3xf32>) -> tensor<2x4x3xf32>', "return %r : tensor<2x4x3xf32>"], f32(3))
for lower in ("true", "false"):
    main(f"text_cholesky_{lower}", [M], [M], [f'%r = "stablehlo.cholesky"(%0) {{lower = {lower}}} : ({M}) -> {M}', f"return %r : {M}"], SPD,
         rtol=1e-3)
for i, (left, lower, unit, turn) in enumerate([("true", "true", "false", "NO_TRANSPOSE"), ("true", "false", "false", "TRANSPOSE"), ("false", "true", "false", "NO_TRANSPOSE"),
                                               ("false", "false", "true", "ADJOINT"), ("true", "true", "true", "NO_TRANSPOSE")]):
    main(f"text_triangular_{i}", [M, M], [M],
         [f'%r = "stablehlo.triangular_solve"(%0, %1) {{left_side = {left}, lower = {lower}, unit_diagonal = {unit}, transpose_a = #stablehlo<transpose {turn}>}} : ({M}, {M}) -> {M}',
          f"return %r : {M}"], SPD, f32(3, 3), rtol=1e-3)
main("text_map", ["tensor<2x3xf32>", "tensor<2x3xf32>"], ["tensor<2x3xf32>"],
     ['%r = "stablehlo.map"(%0, %1) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):', "%c = stablehlo.multiply %a, %b : tensor<f32>", "%d = stablehlo.add %c, %a : tensor<f32>",
      'stablehlo.return %d : tensor<f32> }) {dimensions = array<i64: 0, 1>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>', "return %r : tensor<2x3xf32>"], f32(2, 3), f32(2, 3))
main("text_total_order", ["tensor<6xf32>", "tensor<6xf32>"], ["tensor<6xi1>"],
     ["%r = stablehlo.compare LT, %0, %1, TOTALORDER : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xi1>", "return %r : tensor<6xi1>"],
     np.array([-0.0, 0.0, np.nan, 1, -np.inf, 5], np.float32), np.array([0.0, -0.0, 1, np.nan, -1, 5], np.float32))
main("text_reduce_general", ["tensor<4x7xf32>"], ["tensor<4xf32>"],
     ["%z = stablehlo.constant dense<0.5> : tensor<f32>", '%r = "stablehlo.reduce"(%0, %z) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):', "%h = stablehlo.constant dense<1.0> : tensor<f32>",
      "%m = stablehlo.maximum %a, %b : tensor<f32>", "%c = stablehlo.minimum %m, %h : tensor<f32>", 'stablehlo.return %c : tensor<f32> }) {dimensions = array<i64: 1>} : (tensor<4x7xf32>, tensor<f32>) -> tensor<4xf32>',
      "return %r : tensor<4xf32>"], f32(4, 7))
main("text_sort_descending", ["tensor<3x5xi32>", "tensor<3x5xf32>"], ["tensor<3x5xi32>", "tensor<3x5xf32>"],
     ['%r:2 = "stablehlo.sort"(%0, %1) ({ ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<f32>):', "%g = stablehlo.compare GT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>",
      'stablehlo.return %g : tensor<i1> }) {dimension = 0 : i64, is_stable = true} : (tensor<3x5xi32>, tensor<3x5xf32>) -> (tensor<3x5xi32>, tensor<3x5xf32>)',
      "return %r#0, %r#1 : tensor<3x5xi32>, tensor<3x5xf32>"], i32(-3, 3, 3, 5), f32(3, 5))
main("text_gather_vectors_first", ["tensor<4x5xf32>", "tensor<2x3xi32>"], ["tensor<3xf32>"],
     ['%r = "stablehlo.gather"(%0, %1) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [1, 0], index_vector_dim = 0>, slice_sizes = array<i64: 1, 1>} : '
      "(tensor<4x5xf32>, tensor<2x3xi32>) -> tensor<3xf32>", "return %r : tensor<3xf32>"], f32(4, 5), i32(-1, 6, 2, 3))
main("text_gather_kept_axis", ["tensor<4x5xf32>", "tensor<3x1xi32>"], ["tensor<5x3x1xf32>"],
     ['%r = "stablehlo.gather"(%0, %1) {dimension_numbers = #stablehlo.gather<offset_dims = [0, 2], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 5>} : '
      "(tensor<4x5xf32>, tensor<3x1xi32>) -> tensor<1x3x5xf32>", "%t = stablehlo.transpose %r, dims = [2, 1, 0] : (tensor<1x3x5xf32>) -> tensor<5x3x1xf32>", "return %t : tensor<5x3x1xf32>"],
     f32(4, 5), i32(0, 4, 3, 1))
main("text_scatter_windows", ["tensor<5x6xf32>", "tensor<3x2xi32>", "tensor<3x2x2xf32>"], ["tensor<5x6xf32>"],
     ['%r = "stablehlo.scatter"(%0, %1, %2) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):', "%c = stablehlo.add %a, %b : tensor<f32>",
      "stablehlo.return %c : tensor<f32> }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>} : "
      "(tensor<5x6xf32>, tensor<3x2xi32>, tensor<3x2x2xf32>) -> tensor<5x6xf32>", "return %r : tensor<5x6xf32>"],
     f32(5, 6), np.array([[0, 0], [3, 4], [4, 4]], np.int32), f32(3, 2, 2))
main("text_platform_index", ["tensor<i32>", "tensor<3xf32>"], ["tensor<3xf32>"],
     ['%r = "stablehlo.case"(%0) ({ %a = stablehlo.negate %1 : tensor<3xf32>', "stablehlo.return %a : tensor<3xf32> }, {", "%b = stablehlo.add %1, %1 : tensor<3xf32>",
      "stablehlo.return %b : tensor<3xf32> }) : (tensor<i32>) -> tensor<3xf32>", "return %r : tensor<3xf32>"], f32(3), platforms=["CUDA", "CPU"])
main("text_convolution_reversed", ["tensor<1x5x5x2xf32>", "tensor<3x2x2x3xf32>"], ["tensor<1x4x6x3xf32>"],
     ['%r = stablehlo.convolution(%0, %1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 0], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], '
      'reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x5x5x2xf32>, tensor<3x2x2x3xf32>) -> tensor<1x4x6x3xf32>', "return %r : tensor<1x4x6x3xf32>"],
     f32(1, 5, 5, 2), f32(3, 2, 2, 3), rtol=1e-3, atol=1e-4)
