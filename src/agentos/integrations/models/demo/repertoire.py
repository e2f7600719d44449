"""The small programs that the demo model can write, each with tests that can fail."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """A program, its tests, and a command that shows it at work."""

    asked: re.Pattern[str]
    name: str
    program: str
    tests: str
    example: str

    @property
    def program_file(self) -> str:
        return f"{self.name}.py"

    @property
    def tests_file(self) -> str:
        return f"test_{self.name}.py"

    @property
    def tests_command(self) -> str:
        # Without -B the workspace would fill with compiled files.
        return f"python3 -B -m unittest test_{self.name}"


_HAIKU = '''\
"""Haiku from a small vocabulary: three lines of 5, 7 and 5 syllables.

    python3 haiku.py            a new haiku
    python3 haiku.py --seed 17  always the same one
"""

from __future__ import annotations

import argparse
import functools
import itertools
import random
import re

PATTERN = (5, 7, 5)

ADJECTIVES = ["silver", "gentle", "distant", "golden", "cold", "soft", "hidden", "bright"]
NOUNS = ["river", "maple", "moon", "mountain", "heron", "autumn wind", "snow", "lantern"]
VERBS = ["whispers", "drifts", "awakens", "glimmers", "waits", "falls", "wanders", "returns"]
PLACES = ["in the morning", "at dawn", "under the pines", "by the old mill", "without a sound"]

TEMPLATES = [(ADJECTIVES, NOUNS), (ADJECTIVES, NOUNS, VERBS), (NOUNS, VERBS, PLACES)]


def syllables(text: str) -> int:
    """About how many syllables an English text has: groups of vowels, without a silent e."""
    return sum(_of_word(word) for word in re.findall(r"[a-z]+", text.lower()))


def _of_word(word: str) -> int:
    groups = len(re.findall(r"[aeiouy]+", word))
    silent = re.search(r"[^aeiouyl]e$|[^aeiouycghsxz]es$", word)
    return max(1, groups - 1 if silent else groups)


@functools.cache
def lines(wanted: int) -> list[tuple[str, ...]]:
    """Every line with exactly so many syllables."""
    return [
        words
        for template in TEMPLATES
        for words in itertools.product(*template)
        if sum(map(syllables, words)) == wanted
    ]


def haiku(seed: int | None = None) -> str:
    """A haiku in which nothing is said twice; the same seed gives the same one."""
    chance = random.Random(seed)
    chosen: list[tuple[str, ...]] = []
    for wanted in PATTERN:
        said = set(itertools.chain(*chosen))
        chosen.append(chance.choice([words for words in lines(wanted) if said.isdisjoint(words)]))
    return "\\n".join(" ".join(words) for words in chosen)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write a haiku.")
    parser.add_argument("--seed", type=int, help="the same seed gives the same haiku")
    print(haiku(parser.parse_args().seed))
'''

_HAIKU_TESTS = """\
import unittest

from haiku import PATTERN, haiku, lines, syllables


class Syllables(unittest.TestCase):
    def test_words_whose_number_is_known(self):
        known = {"moon": 1, "river": 2, "maple": 2, "lantern": 2, "awakens": 3, "pines": 1}
        for word, number in known.items():
            with self.subTest(word):
                self.assertEqual(syllables(word), number)

    def test_a_silent_e_does_not_count(self):
        self.assertEqual(syllables("white stone"), 2)


class Haiku(unittest.TestCase):
    def test_lines_have_5_7_and_5_syllables(self):
        for seed in range(100):
            with self.subTest(seed=seed):
                self.assertEqual(tuple(map(syllables, haiku(seed).splitlines())), PATTERN)

    def test_the_same_seed_gives_the_same_haiku(self):
        self.assertEqual(haiku(17), haiku(17))

    def test_different_seeds_give_different_haiku(self):
        self.assertGreater(len({haiku(seed) for seed in range(50)}), 25)

    def test_the_vocabulary_gives_room_for_many(self):
        for wanted in PATTERN:
            self.assertGreater(len(lines(wanted)), 50)


if __name__ == "__main__":
    unittest.main()
"""

_FIBONACCI = '''\
"""Fibonacci numbers.

    python3 fibonacci.py 10   the first ten
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice


def numbers() -> Iterator[int]:
    """All of them, beginning with 0 and 1."""
    one, other = 0, 1
    while True:
        yield one
        one, other = other, one + other


def fibonacci(n: int) -> int:
    """The number at position n, counted from 0."""
    if n < 0:
        raise ValueError("n must not be negative")
    return next(islice(numbers(), n, None))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print Fibonacci numbers.")
    parser.add_argument("count", type=int, help="how many")
    print(*islice(numbers(), parser.parse_args().count))
'''

_FIBONACCI_TESTS = """\
import unittest
from itertools import islice

from fibonacci import fibonacci, numbers


class Fibonacci(unittest.TestCase):
    def test_the_first_ten(self):
        self.assertEqual(list(islice(numbers(), 10)), [0, 1, 1, 2, 3, 5, 8, 13, 21, 34])

    def test_each_is_the_sum_of_the_two_before(self):
        for n in range(2, 50):
            self.assertEqual(fibonacci(n), fibonacci(n - 1) + fibonacci(n - 2))

    def test_large_ones_are_exact(self):
        self.assertEqual(fibonacci(100), 354224848179261915075)

    def test_negative_positions_are_refused(self):
        with self.assertRaises(ValueError):
            fibonacci(-1)


if __name__ == "__main__":
    unittest.main()
"""

_WORD_COUNT = '''\
"""Counts words.

    python3 word_count.py FILE   the most frequent words of a file
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path


def words(text: str) -> list[str]:
    """The words of a text in small letters; an apostrophe belongs to its word."""
    return re.findall(r"[^\\W\\d_]+(?:['’][^\\W\\d_]+)*", text.lower())


def most_frequent(text: str, count: int) -> list[tuple[str, int]]:
    """The most frequent words with their numbers; among equals the alphabet decides."""
    ranked = sorted(Counter(words(text)).items(), key=lambda pair: (-pair[1], pair[0]))
    return ranked[:count]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Count the words of a file.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=5, help="how many words to show")
    given = parser.parse_args()
    for word, number in most_frequent(given.file.read_text(), given.count):
        print(f"{number:6} {word}")
'''

_WORD_COUNT_TESTS = """\
import unittest

from word_count import most_frequent, words


class WordCount(unittest.TestCase):
    def test_marks_and_capitals_do_not_matter(self):
        self.assertEqual(words("The end. The END!"), ["the", "end", "the", "end"])

    def test_an_apostrophe_belongs_to_its_word(self):
        self.assertEqual(words("Don't 'quote' me"), ["don't", "quote", "me"])

    def test_the_most_frequent_come_first_then_the_alphabet(self):
        self.assertEqual(most_frequent("b a c b a d", 3), [("a", 2), ("b", 2), ("c", 1)])

    def test_no_words_in_nothing(self):
        self.assertEqual(most_frequent("... 123", 5), [])


if __name__ == "__main__":
    unittest.main()
"""

PIECES = (
    Piece(
        re.compile(
            r"(?=.*\bhaikus?\b)(?=.*\b(?:generator|program|script|python|code|test))", re.I | re.S
        ),
        "haiku",
        _HAIKU,
        _HAIKU_TESTS,
        "python3 haiku.py --seed 17",
    ),
    Piece(
        re.compile(r"\bfibonacci\b", re.I),
        "fibonacci",
        _FIBONACCI,
        _FIBONACCI_TESTS,
        "python3 fibonacci.py 10",
    ),
    Piece(
        re.compile(r"\bword[- ]?(?:count|frequenc)|\bcount\w*\s+(?:the\s+)?words\b", re.I),
        "word_count",
        _WORD_COUNT,
        _WORD_COUNT_TESTS,
        "python3 word_count.py word_count.py",
    ),
)
