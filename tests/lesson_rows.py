"""What the two source lessons ask for, row by row, and the places where each row can be seen, changed and checked.

A place is one of
    lab:NAME            an experiment of `tinygrad-attn lab NAME`
    command:NAME        a command of `tinygrad-attn`
    PATH                a file of the repository
    PATH::test_name     a test in it
    PATH#text           a file that holds this text
(test_lessons_rows.py checks that they exist.)"""

from typing import NamedTuple

LESSON = "examples/lessons/"


class Row(NamedTuple):
    part: str
    demand: str
    places: tuple[str, ...]


ROWS = [
    # A. Scaled dot-product attention and the square root
    Row(
        "A",
        "softmax(q k^T / sqrt(d_k)) v for batches, n_q != n_k and d_v != d_k, with the weights beside the output",
        ("tests/attention/test_explicit_shapes.py::test_equals_the_textbook", LESSON + "3_attention.py"),
    ),
    Row(
        "A",
        "self-attention from learned W_Q, W_K, W_V",
        (
            "tests/nn/test_multihead.py::test_equals_the_heads_one_by_one",
            "tinygrad_attn/nn/attention.py#class MultiHeadAttention",
            "examples/06_train_agreement.py",
        ),
    ),
    Row(
        "A",
        "four steps with shapes, values and gradients, in their order",
        (
            "tests/attention/test_explicit.py::test_names_in_order_with_shapes_and_gradients",
            "tests/show/test_show.py::test_trace_lists_the_steps_of_attention_in_order_with_their_gradients",
            LESSON + "3_attention.py#Every step, and the gradient that reaches it",
        ),
    ),
    Row(
        "A",
        "what the mask hides has weight and gradient exactly 0",
        (
            "tests/attention/test_explicit_shapes.py::test_equals_the_textbook",
            LESSON + "6_masks.py",
            "examples/08_masks.py",
        ),
    ),
    Row(
        "A",
        "rows of weights sum to 1; outputs are averages of values",
        (
            "tests/attention/test_explicit_shapes.py::test_equals_the_textbook",
            "tests/attention/test_field_bugs.py::test_case_j8_rows_sum_to_one_not_columns",
            LESSON + "3_attention.py#exercise_3",
        ),
    ),
    Row(
        "A",
        "one product makes all scores: no loop over positions",
        ("tests/attention/test_explicit.py::test_all_scores_come_from_one_product",),
    ),
    Row(
        "A",
        "a soft dictionary that becomes d[key] as the temperature falls",
        (
            "lab:dictionary",
            LESSON + "2_softmax.py#soft_lookup",
            "tests/lab/test_random_scores.py::test_soft_lookup_keeps_its_bound_and_reaches_the_value",
        ),
    ),
    Row(
        "A",
        "temperature from one-hot to uniform, and the entropy with it, from 0 to log n",
        (
            "lab:temperature",
            LESSON + "2_softmax.py#temperature_and_entropy",
            "tests/lab/test_random_scores.py::test_entropy_rises_from_0_to_log_n",
        ),
    ),
    Row(
        "A",
        "q.k has mean 0 and variance d_k; typically +-8 at d_k = 64; scaled, variance 1",
        (
            "lab:variance",
            LESSON + "5_square_root.py#score_variance",
            "tests/lab/test_random_scores.py::test_variance_is_d_k_within_four_standard_errors",
            "tests/lab/test_random_scores.py::test_share_beyond_8_at_d_k_64_is_that_of_a_normal",
        ),
    ),
    Row(
        "A",
        "large scores saturate softmax and its Jacobian goes to 0",
        (
            "lab:jacobian",
            "lab:vanishing",
            "tests/lab/test_random_scores.py::test_saturation_of_the_jacobian",
            "tests/lab/test_random_scores.py::test_explicit_jacobian_equals_backward",
        ),
    ),
    Row(
        "A",
        "what becomes of learning without the scaling: stuck queries and accuracy as curves",
        (
            "lab:learning",
            LESSON + "5_square_root.py#learning_with_and_without_scaling",
            "tests/lab/test_learning.py::test_unscaled_gets_stuck_and_falls_behind_but_does_not_stop",
        ),
    ),
    Row(
        "A",
        "additive attention: similar at small d_k, ahead of the unscaled product at large, dearer",
        ("lab:scorers", "tests/lab/test_learning.py::test_additive_beats_the_unscaled_dot_product_and_costs_more"),
    ),
    Row(
        "A",
        "type a sentence and see the attention matrix, rows queries and columns keys",
        ("command:play", "command:report", "command:attend", LESSON + "8_agreement.py#sentence ="),
    ),
    Row(
        "A",
        "the attention matrix is not symmetric, since W_Q and W_K differ",
        ("lab:asymmetry", "tests/lab/test_projections.py::test_scores_are_symmetric_only_when_tied_and_weights_never"),
    ),
    Row(
        "A",
        "the cost is O(n^2 d), by a fitted exponent",
        ("lab:cost", "tests/lab/test_projections.py::test_work_grows_as_n_squared_d_and_memory_need_not"),
    ),
    Row(
        "A",
        "two questions to check oneself, and a notebook per lesson that runs",
        (
            LESSON + "5_square_root.py#Variance of q.k at d_k = 64?",
            LESSON + "3_attention.py#What does each row of the weights sum to?",
            "tests/test_lessons.py::test_notebook_runs_and_its_exercises_judge",
        ),
    ),
    # B. Three projections
    Row(
        "B",
        "attention without parameters against the learned one",
        (
            "lab:parameter-free",
            "tests/lab/test_learning.py::test_attention_without_weights_cannot_learn_relations",
            "tests/attention/test_explicit.py::test_parameter_free_attention_has_nothing_to_train",
        ),
    ),
    Row(
        "B",
        "the example of two tokens, unscaled and scaled",
        (
            "examples/04_attention_by_hand.py#0.53788",
            LESSON + "3_attention.py#2.00928",
            "tests/attention/test_explicit.py::test_worked_example_of_two_tokens",
        ),
    ),
    Row(
        "B",
        "3072 weights a head, 12,288 for all, 4096 for W_O, 16,384 in total",
        ("tests/nn/test_projections.py::test_the_table_of_parameters", LESSON + "7_heads.py#16384"),
    ),
    Row(
        "B",
        "heads apart equal one concatenated W_QKV; is it faster?",
        (
            "lab:concatenated",
            "tests/lab/test_projections.py::test_one_head_at_a_time_equals_one_product",
            "tests/nn/test_multihead.py::test_packed_holds_the_same_numbers",
        ),
    ),
    Row(
        "B",
        "MultiHeadAttention(d_model, n_heads, seed): square matrices, no biases, sigma 0.02",
        (
            "tests/nn/test_projections.py::test_shapes_no_biases_and_sigma",
            "tests/nn/test_projections.py::test_same_seed_same_bits",
            "tests/nn/test_multihead.py::test_bad_settings",
        ),
    ),
    Row(
        "B",
        "argument 1: tied W_Q = W_K makes scores symmetric, weights not",
        (
            "lab:asymmetry",
            LESSON + "4_three_projections.py#Argument 1",
            "tests/nn/test_projections.py::test_tied_queries_and_keys_make_scores_symmetric_and_weights_not",
        ),
    ),
    Row(
        "B",
        "argument 2: V apart from K, and what W_K = W_V costs",
        (
            "lab:ties",
            LESSON + "4_three_projections.py#Argument 2",
            "tests/lab/test_learning.py::test_ties_cost_accuracy_except_k_v_where_there_is_room",
        ),
    ),
    Row(
        "B",
        "argument 3: d_v may differ from d_k",
        ("lab:values", "tests/lab/test_projections.py::test_weights_do_not_depend_on_d_v_and_narrow_values_lose"),
    ),
    Row(
        "B",
        "argument 4: the rank of M = W_Q W_K^T and the sign of its eigenvalues",
        (
            "lab:definiteness",
            "tests/lab/test_projections.py::test_rank_eigenvalues_and_zeros_of_M",
            "examples/17_bilinear_lens.py",
        ),
    ),
    Row(
        "B",
        "tied variants against three matrices, four ways; shared weights add their gradients",
        ("lab:ties", "tests/nn/test_multihead.py::test_tied_matrices_accumulate_their_gradients"),
    ),
    Row(
        "B",
        "the agreement task: position 7 finds position 6; for the whole word the verb, too",
        (
            "lab:agreement",
            LESSON + "8_agreement.py",
            "command:demo",
            "tests/lab/test_learning.py::test_the_blank_looks_at_the_pronoun_and_for_the_word_at_the_verb_too",
        ),
    ),
    Row(
        "B",
        "the Mini-GPT scale: d_model 64 and 4 heads",
        ("tests/nn/test_minigpt.py::test_default_scale_and_names", LESSON + "9_minigpt.py#d_model=64, n_heads=4"),
    ),
    Row(
        "B",
        "by hand, then against the engine, then concatenated",
        (LESSON + "3_attention.py#exercise_1", LESSON + "7_heads.py#packed=True"),
    ),
    Row(
        "B",
        "English and Spanish",
        (
            "tests/test_lessons.py::test_both_languages_have_the_same_cells_and_no_word_of_the_other",
            "tests/lab/test_command.py::test_the_list_names_every_experiment_in_both_languages",
        ),
    ),
    # C. Slips
    Row(
        "C",
        "with W_V = I the example gives the weights, not V_1: only a hard lookup returns V_1",
        (
            LESSON + "3_attention.py#A slip to avoid",
            "examples/04_attention_by_hand.py#no copy of V_1",
            "tests/attention/test_explicit.py::test_identity_values_return_the_weights_not_a_row",
        ),
    ),
    Row(
        "C",
        "tokens are rows: the tied form is W W^T, not W^T W",
        (
            "lab:definiteness",
            "tinygrad_attn/lab/definiteness.py#not W^T W",
            LESSON + "4_three_projections.py#not `Wᵀ W`",
        ),
    ),
    Row(
        "C",
        "semidefinite means >= 0: zeros appear when d_k < d_model",
        (
            "lab:definiteness",
            LESSON + "4_three_projections.py#semi**",
            "tests/lab/test_projections.py::test_rank_eigenvalues_and_zeros_of_M",
        ),
    ),
    Row(
        "C",
        "tying makes scores symmetric, not weights",
        ("lab:asymmetry", LESSON + "4_three_projections.py#*scores* become symmetric"),
    ),
    Row(
        "C",
        "what vanishes is dL/dS; |dL/dW_Q| can grow",
        (
            "lab:vanishing",
            LESSON + "5_square_root.py#norm *grows*",
            "tests/lab/test_random_scores.py::test_score_gradients_vanish_and_those_of_W_Q_do_not",
        ),
    ),
    Row(
        "C",
        "sigma 0.02 hides saturation: experiments need unit-variance q and k",
        (
            "lab:learning",
            LESSON + "5_square_root.py#sigma 0.02",
            "tests/lab/test_learning.py::test_q_and_k_start_with_unit_variance",
        ),
    ),
]
