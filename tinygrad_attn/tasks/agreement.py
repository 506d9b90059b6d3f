"""The agreement task: a whole little language in which the answer stands at one known place.

    position   0   1     2   3     4     5   6    7
    token      I   work  ,   you   work  ,   he   ___

Two clauses, then a pronoun and a blank. The blank asks for the *ending* of the verb: bare after
`I you we they`, `-s` after `he she it everyone`. Only the pronoun at position 6 decides it; those at 0 and 3
are bait: `he work , she work , I ___` wants the bare form.

**Verbs in the clauses are stems** (`he work`, as a dictionary lists them): endings are the answers, and only
the answers. With `he works` in the clauses, counting words would give the answer away without any regard to
places: take the -s pronouns, subtract the verbs that show an -s, and what is left is the pronoun at 6. With
stems, counting leaves the majority of three pronouns, right 3 times in 4; to do better, a model must tell
position 6 from 0 and 3.

Every sentence is one verb and three pronouns, so the language is 8 * 8 * 8 * 8 = 4096 sentences and nothing
needs to be sampled: both splits below are complete lists.

**What is held out.** A *pair* is a verb and a pronoun standing in one sentence: (work, I), (work, you) and
(work, he) above. The seed picks two pairs per verb, one of each ending; then

    training   all sentences without any held-out pair, at 0, 3 or 6      8 * 6 * 6 * 6 = 1728
    held out   all sentences whose *asked* pair (verb, position 6)
               is a held-out one, with any pronouns in the clauses        8 * 2 * 8 * 8 = 1024
    neither    a held-out pair in a clause only: would show the pair                       1344

Each pronoun is held out with two verbs and trained with six, so no token is new, only the pair.
In both lists, fix everything but position 6 and the two endings are equally frequent: whoever does not look
there is right exactly half the time.

**Two questions.** `bare` or `-s` (the default) needs the pronoun alone: the held-out pairs then check that
the verb is ignored. With `whole_word=True` the answer is the word (`works`): position 7 must look at 6 *and*
at the stem at 1 or 4, and a held-out pair checks that the two are put together rather than remembered.

>>> task = agreement(seed=0)
>>> len(task.train), len(task.held_out)
(1728, 1024)
>>> task.ask("I work , you work , he ___")
'-s'
>>> agreement(seed=0, whole_word=True).ask("I work , you work , he ___")
'works'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

BARE_PRONOUNS = ("I", "you", "we", "they")
S_PRONOUNS = ("he", "she", "it", "everyone")
PRONOUNS = BARE_PRONOUNS + S_PRONOUNS
VERBS = ("work", "sing", "run", "read", "walk", "sleep", "play", "eat")
COMMA, BLANK = ",", "___"

ENDINGS = ("bare", "-s")  # the answers of the default question
WORDS = tuple(verb + tail for verb in VERBS for tail in ("", "s"))  # the answers of the whole-word question
VOCABULARY = PRONOUNS + VERBS + (COMMA, BLANK)  # token id = place in this tuple

LENGTH = 8  # tokens in a sentence
PRONOUN_AT, VERB_AT, ASKED_AT, BLANK_AT = (0, 3, 6), (1, 4), 6, 7


def ending(pronoun: str) -> int:
    """The ending a pronoun demands, as an index into ENDINGS.

    >>> ENDINGS[ending("they")], ENDINGS[ending("it")]
    ('bare', '-s')
    """
    return int(pronoun in S_PRONOUNS)


def sentence(verb: str, first: str, second: str, asked: str) -> list[str]:
    """The 8 tokens of a sentence.

    >>> " ".join(sentence("run", "it", "we", "I"))
    'it run , we run , I ___'
    """
    return [first, verb, COMMA, second, verb, COMMA, asked, BLANK]


def numbered(words: Iterable[str], vocabulary: Sequence[str]) -> Ints:
    """The place of each word in the vocabulary, (n,) int64.  Errors: ValueError naming the words that it does not hold.

    >>> numbered("ba", "abc")
    array([1, 0])
    """
    place = {word: i for i, word in enumerate(vocabulary)}
    words = list(words)
    if unknown := sorted(set(words) - place.keys()):
        held = " ".join(vocabulary[:60]).replace("\n", "\\n")
        raise ValueError(f"not in the vocabulary: {', '.join(map(repr, unknown))}; it holds {held}")
    return np.array([place[word] for word in words], dtype=np.int64)


def encode(text: str) -> Ints:
    """Text to token ids, (n,) int64.

    >>> encode("I work , you work , he ___").tolist()
    [0, 8, 16, 1, 8, 16, 4, 17]
    """
    return numbered(text.split(), VOCABULARY)


def decode(tokens: Ints) -> str:
    """Token ids, (n,), to text.

    >>> decode(encode("I work , you work , he ___"))
    'I work , you work , he ___'
    """
    return " ".join(VOCABULARY[i] for i in tokens)


@dataclass(frozen=True)
class Split:
    """Sentences and their answers: tokens (n, 8) int64, labels (n,) int64 indices into the task's answers."""

    tokens: Ints
    labels: Ints

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, rng: np.random.Generator, size: int) -> tuple[Ints, Ints]:
        """`size` different sentences at random: tokens (size, 8) and labels (size,).

        >>> tokens, labels = agreement(seed=0).train.batch(np.random.default_rng(1), 32)
        >>> tokens.shape, labels.shape
        ((32, 8), (32,))
        """
        rows = rng.choice(len(self), size, replace=False)
        return self.tokens[rows], self.labels[rows]


@dataclass(frozen=True)
class Agreement:
    """The task: what may be answered, the two splits, and the (verb, pronoun) pairs kept out of training."""

    answers: tuple[str, ...]
    held_out_pairs: frozenset[tuple[str, str]]
    train: Split
    held_out: Split

    def ask(self, text: str) -> str:
        """The right answer for a sentence of the language, by the grammar (no model involved).

        >>> agreement(seed=0).ask("he work , she work , I ___")
        'bare'
        """
        encode(text)  # names the words it does not know
        return self.answers[_label(text.split(), self.answers == WORDS)]


def _label(tokens: list[str], whole_word: bool) -> int:
    verbs = tuple(set(VERBS) & set(tokens[1:2]))  # both clauses have the same one
    kinds = [PRONOUNS, verbs, (COMMA,), PRONOUNS, verbs, (COMMA,), PRONOUNS, (BLANK,)]
    if len(tokens) != LENGTH or not all(token in kind for token, kind in zip(tokens, kinds)):
        raise ValueError(f"a sentence reads like 'I work , you work , he ___', got {' '.join(tokens)!r}")
    end = ending(tokens[ASKED_AT])
    return 2 * VERBS.index(tokens[VERB_AT[0]]) + end if whole_word else end


def _choose_pairs(rng: np.random.Generator) -> frozenset[tuple[str, str]]:
    """Two pairs per verb, one of each ending, so that every pronoun is chosen equally often."""
    pairs = set()
    for pronouns in (BARE_PRONOUNS, S_PRONOUNS):
        for i, verb in enumerate(rng.permutation(len(VERBS))):
            pairs.add((VERBS[verb], pronouns[i % len(pronouns)]))
    return frozenset(pairs)


def agreement(seed: int, *, whole_word: bool = False) -> Agreement:
    """The task of one seed: the seed picks the held-out pairs and the order of the sentences, nothing else.

    whole_word: ask for the word (`works`, 16 answers) instead of the ending (`-s`, 2 answers).

    >>> task = agreement(seed=3)
    >>> task.answers, task.train.tokens.shape, task.train.labels.shape
    (('bare', '-s'), (1728, 8), (1728,))
    """
    rng = np.random.default_rng(seed)
    pairs = _choose_pairs(rng)
    train, held_out = [], []
    for verb, first, second, asked in product(VERBS, PRONOUNS, PRONOUNS, PRONOUNS):
        if (verb, asked) in pairs:
            held_out.append(sentence(verb, first, second, asked))
        elif not {(verb, first), (verb, second)} & pairs:
            train.append(sentence(verb, first, second, asked))

    def split(sentences: list[list[str]]) -> Split:
        order = rng.permutation(len(sentences))
        return Split(
            numbered((word for i in order for word in sentences[i]), VOCABULARY).reshape(-1, LENGTH),
            np.array([_label(sentences[i], whole_word) for i in order], dtype=np.int64),
        )

    return Agreement(WORDS if whole_word else ENDINGS, pairs, split(train), split(held_out))
