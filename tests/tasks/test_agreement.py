"""The agreement task, read as its specification: the sentences, the two splits, and why only position 6 helps."""

from collections import Counter

import numpy as np
import pytest

from tinygrad_attn.tasks.agreement import (
    ASKED_AT,
    BARE_PRONOUNS,
    BLANK,
    BLANK_AT,
    COMMA,
    ENDINGS,
    PRONOUN_AT,
    PRONOUNS,
    S_PRONOUNS,
    VERB_AT,
    VERBS,
    VOCABULARY,
    WORDS,
    agreement,
    decode,
    encode,
)

SEEDS = range(5)


@pytest.fixture(params=SEEDS)
def task(request):
    return agreement(request.param)


def texts(split):
    return [decode(row).split() for row in split.tokens]


def verb_of(sentence):
    return sentence[VERB_AT[0]]


def pairs_of(sentence):
    """Every (verb, pronoun) that stands in the sentence."""
    return {(verb_of(sentence), sentence[i]) for i in PRONOUN_AT}


# --- the sentences ---------------------------------------------------------------------------------------------


def test_the_sentence_of_the_lesson_asks_for_s():
    assert agreement(0).ask("I work , you work , he ___") == "-s"
    assert agreement(0).ask("he work , she work , I ___") == "bare"
    assert agreement(0, whole_word=True).ask("I work , you work , he ___") == "works"


def test_every_sentence_is_two_clauses_a_pronoun_and_a_blank(task):
    for s in texts(task.train) + texts(task.held_out):
        assert len(s) == 8 and s[2] == s[5] == COMMA and s[BLANK_AT] == BLANK
        assert all(s[i] in PRONOUNS for i in PRONOUN_AT)
        assert all(s[i] in VERBS for i in VERB_AT)


def test_the_clauses_share_one_verb_and_show_no_ending(task):
    assert all(s[1] == s[4] == verb_of(s) for s in texts(task.train) + texts(task.held_out))
    assert not set(VOCABULARY) & {verb + "s" for verb in VERBS}


def test_the_label_is_the_ending_that_the_pronoun_at_6_demands(task):
    for split in (task.train, task.held_out):
        for s, label in zip(texts(split), split.labels):
            assert ENDINGS[label] == ("-s" if s[ASKED_AT] in S_PRONOUNS else "bare")
            assert task.ask(" ".join(s)) == task.answers[label]


def test_arrays_are_int64_ids_of_the_vocabulary(task):
    for split in (task.train, task.held_out):
        assert split.tokens.dtype == split.labels.dtype == np.int64
        assert split.tokens.shape == (len(split), 8) and split.labels.shape == (len(split),)
        assert split.tokens.min() >= 0 and split.tokens.max() < len(VOCABULARY)


def test_text_and_tokens_are_inverses(task):
    assert all(np.array_equal(encode(decode(row)), row) for row in task.train.tokens[:50])
    assert len(set(VOCABULARY)) == len(VOCABULARY)


@pytest.mark.parametrize(
    "text, message",
    [
        ("I jump , you jump , he ___", "not in the vocabulary.*jump"),
        ("I work , he ___", "a sentence reads like"),
        ("work I , you work , he ___", "a sentence reads like"),
        ("I work , you sing , he ___", "a sentence reads like"),
    ],
)
def test_what_is_no_sentence_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        agreement(0).ask(text)


# --- the splits ------------------------------------------------------------------------------------------------


def test_two_pairs_per_verb_are_held_out_one_of_each_ending_every_pronoun_twice(task):
    assert len(task.held_out_pairs) == 2 * len(VERBS)
    for verb in VERBS:
        assert sorted(p in S_PRONOUNS for v, p in task.held_out_pairs if v == verb) == [False, True]
    assert Counter(p for _, p in task.held_out_pairs) == dict.fromkeys(PRONOUNS, 2)


def test_training_sentences_contain_no_held_out_pair_anywhere(task):
    assert all(not pairs_of(s) & task.held_out_pairs for s in texts(task.train))


def test_every_held_out_sentence_asks_for_a_pair_never_seen_in_training(task):
    seen = set().union(*map(pairs_of, texts(task.train)))
    assert all((verb_of(s), s[ASKED_AT]) not in seen for s in texts(task.held_out))


def test_the_splits_are_complete_lists_without_repeats(task):
    train, held_out = ({tuple(row) for row in split.tokens} for split in (task.train, task.held_out))
    assert len(train) == len(task.train) == 1728
    assert len(held_out) == len(task.held_out) == 1024


def test_only_the_pair_is_new_every_token_and_answer_is_trained(task):
    assert set(task.train.tokens.ravel()) == set(range(len(VOCABULARY)))
    assert {s[ASKED_AT] for s in texts(task.train)} == set(BARE_PRONOUNS + S_PRONOUNS)
    assert set(agreement(0, whole_word=True).train.labels) == set(range(len(WORDS)))


# --- only position 6 helps -------------------------------------------------------------------------------------


def test_labels_are_balanced(task):
    for split in (task.train, task.held_out):
        assert np.bincount(split.labels).tolist() == [len(split) // 2] * 2


def test_fixing_everything_but_position_6_leaves_the_answer_at_half(task):
    for split in (task.train, task.held_out):
        without_6 = Counter()
        for row, label in zip(np.delete(split.tokens, ASKED_AT, axis=1), split.labels):
            without_6[tuple(row)] += 1 if label else -1
        assert set(without_6.values()) == {0}


def test_counting_words_without_looking_at_places_is_right_3_times_in_4(task):
    """The best answer from the bag of tokens alone: the majority of three pronouns."""
    bags = {}
    for row, label in zip(task.train.tokens, task.train.labels):
        bags.setdefault(tuple(sorted(row)), Counter())[int(label)] += 1
    assert sum(max(bag.values()) for bag in bags.values()) == 0.75 * len(task.train)


def test_whole_word_needs_the_verb_as_well():
    for split in (agreement(1, whole_word=True).train, agreement(1, whole_word=True).held_out):
        assert set(np.bincount(split.labels)) == {len(split) // 16}
        for s, label in zip(texts(split), split.labels):
            assert WORDS[label] == verb_of(s) + ("s" if s[ASKED_AT] in S_PRONOUNS else "")


# --- the seed --------------------------------------------------------------------------------------------------


def test_same_seed_same_task_other_seed_other_pairs():
    a, b, c = agreement(7), agreement(7), agreement(8)
    assert np.array_equal(a.train.tokens, b.train.tokens) and np.array_equal(a.held_out.labels, b.held_out.labels)
    assert a.held_out_pairs == b.held_out_pairs != c.held_out_pairs


def test_the_two_questions_of_one_seed_show_the_same_sentences():
    assert np.array_equal(agreement(2).train.tokens, agreement(2, whole_word=True).train.tokens)


def test_the_global_random_state_is_left_alone():
    before = np.random.get_state()[1].copy()
    agreement(0).train.batch(np.random.default_rng(0), 16)
    assert np.array_equal(before, np.random.get_state()[1])


def test_a_batch_is_different_rows_with_their_own_labels():
    split = agreement(0).train
    tokens, labels = split.batch(np.random.default_rng(0), 64)
    assert len({tuple(row) for row in tokens}) == 64
    assert all(ENDINGS[y] == agreement(0).ask(decode(row)) for row, y in zip(tokens[:5], labels))
