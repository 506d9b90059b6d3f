"""Does attention learn where the answer stands?  All five seeds: about half a second each."""

import numpy as np
import pytest

import tinygrad_attn as ta
from tinygrad_attn.tasks.agreement import agreement, encode
from tinygrad_attn.tasks.reader import Reader, attention, examine, learn


@pytest.mark.parametrize("seed", range(5))
def test_every_held_out_answer_is_right_and_the_blank_looks_at_position_6(seed):
    task = agreement(seed)
    reader = Reader(len(task.answers), seed)
    before = examine(reader, task.held_out)
    losses = []
    learn(reader, task, seed, on_step=lambda step, loss: losses.append((step, loss)))
    exam = examine(reader, task.held_out)
    assert before.accuracy < 0.9
    assert exam.accuracy == 1.0
    assert exam.finds_6 >= 0.95
    assert [step for step, _ in losses] == list(range(1, len(losses) + 1)) and losses[-1][1] < 0.01


def test_attention_is_causal_and_its_rows_sum_to_1():
    logits, weights = attention(Reader(2, seed=0), encode("I work , you work , he ___")[None])
    assert logits.shape == (1, 2) and weights.shape == (1, 4, 8, 8)
    assert np.abs(weights.sum(-1) - 1).max() < 1e-6
    assert (weights[..., np.triu(np.ones((8, 8), bool), 1)] == 0).all()


def test_same_seed_same_weights():
    def trained():
        reader, task = Reader(2, seed=1), agreement(1)
        learn(reader, task, seed=1, steps=3)
        return reader.state_dict()

    one, two = trained(), trained()
    assert all((one[name] == two[name]).all() for name in one)


def test_every_parameter_gets_a_gradient():
    reader, task = Reader(2, seed=0), agreement(0)
    tokens, labels = task.train.batch(np.random.default_rng(0), 64)
    ta.cross_entropy(reader(tokens), labels).backward()
    assert all(p.grad is not None and np.abs(p.grad.numpy()).max() > 0 for _, p in reader.named_parameters())


def test_shorter_sentences_are_read_up_to_their_last_word_and_longer_ones_refused():
    reader, tokens = Reader(2, seed=0), encode("I work , you work , he ___")[None]
    seen_alone = np.tri(8, dtype=bool)
    seen_alone[7, :7] = False  # the blank sees itself alone: what stands before it changes nothing
    other = tokens.copy()
    other[0, 6] = tokens[0, 0]
    np.testing.assert_allclose(
        reader(tokens, mask=seen_alone).numpy(), reader(other, mask=seen_alone).numpy(), rtol=1e-6
    )
    assert reader(tokens[:, :3]).shape == (1, 2)
    with pytest.raises(IndexError):
        reader(np.concatenate([tokens, tokens], axis=1))
