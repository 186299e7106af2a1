"""The sketches err as little as their theory says, forget what has left the window, and say what they weigh."""

from __future__ import annotations

import math

import numpy as np
import pytest

import skyband as sb
from skyband import streams
from skyband.incomplete.kernels.sketches import mixed
from skyband.incomplete.sketches import AmsSketches, Sketches
from skyband.snapshot import decode, encode
from tests.programs import without_compiler

ROUNDS = 200


def one_stream(codes, **how):
    sketch = Sketches(1, **how)
    sketch.observe(np.zeros(codes.size, np.int64), codes, np.arange(codes.size))
    return sketch


def observed(tuples, *, sketch=None, d=None, **how):
    sketch = sketch or Sketches(d, **how)
    sketch.observe(tuples.streams, tuples.objects, np.arange(tuples.objects.size))
    return sketch


class TestDistinct:
    @pytest.mark.parametrize("count", [1, 20, 500, 1_000, 2_000, 50_000])
    def test_no_bias_and_the_stated_error(self, count):
        # Windows of a few hundred objects are where estimates from the highest bits alone go wrong.
        rng = np.random.default_rng(count)
        found = np.array([one_stream(rng.integers(0, 2**62, count)).distinct(0) for _ in range(ROUNDS)])
        error = Sketches(1).error(count)
        assert abs(found.mean() - count) <= 4 * error / math.sqrt(ROUNDS) + 0.01 * count
        assert found.std() <= 1.25 * error
        assert error <= 0.65 / math.sqrt(128) * count

    def test_more_bitmaps_err_less(self):
        assert 3.5 < Sketches(1, bitmaps=16).error(10**6) / Sketches(1, bitmaps=256).error(10**6) < 4.5

    def test_an_object_counts_once_however_often_it_comes(self):
        codes = np.arange(300)
        assert one_stream(np.tile(codes, 7)).distinct(0) == one_stream(codes).distinct(0)

    def test_expired_objects_stop_counting(self):
        codes = np.arange(5_000)
        sketch = one_stream(codes)
        for start in (1_000, 4_000, 4_990):
            # What is left is what a sketch would have seen that began there.
            later = Sketches(1)
            later.observe(np.zeros(5_000 - start, np.int64), codes[start:], np.arange(start, 5_000))
            assert sketch.distinct(start) == later.distinct(start)
        assert sketch.distinct(5_000) == 0.0

    def test_an_object_that_comes_again_stays(self):
        sketch = Sketches(1)
        sketch.observe(np.zeros(2, np.int64), np.array([7, 7]), np.array([-5, 90]))
        assert sketch.distinct(-5) == sketch.distinct(90) > 0
        assert sketch.distinct(91) == 0.0

    def test_a_union_is_the_sketch_of_the_union(self):
        tuples = streams.correlated(3_000, 4, seed=2)
        apart = observed(tuples, d=4)
        for chosen in ([0], [1, 3], [0, 1, 2, 3]):
            mine = np.isin(tuples.streams, chosen)
            together = Sketches(1)
            together.observe(np.zeros(mine.sum(), np.int64), tuples.objects[mine], np.flatnonzero(mine))
            for start in (0, 2_000):
                assert apart.distinct(start, chosen) == together.distinct(start)

    def test_codes_in_a_row_are_as_good_as_any(self):
        assert abs(one_stream(np.arange(10_000)).distinct(0) - 10_000) < 3 * Sketches(1).error(10_000)

    def test_more_objects_than_bits_end_somewhere(self):
        full = one_stream(np.arange(20_000), bitmaps=4, levels=3).distinct(0)
        assert 100 < full < math.inf


def frequencies(tuples, start, d):
    """How often objects of each set of streams are in each stream: counted, the definition of the chances."""
    objects, streams_ = tuples.objects[start:], tuples.streams[start:]
    masks = np.zeros(objects.max() + 1, np.int64)
    np.bitwise_or.at(masks, objects, 1 << streams_)
    masks = masks[masks > 0]
    true, sure = np.ones((1 << d, d)), np.zeros(1 << d)
    for mask in range(1 << d):
        among = masks[masks & mask == mask]
        sure[mask] = among.size
        for stream in range(d):
            if among.size:
                true[mask, stream] = (among >> stream & 1).mean()
    return true, sure


class TestChances:
    @pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
    @pytest.mark.parametrize(("d", "window"), [(2, 500), (2, 2_000), (3, 2_000), (6, 20_000)])
    def test_near_the_true_frequencies(self, d, window, rho):
        tuples = streams.correlated(3 * window, seed=4, streams=d, rho=rho, recent=window // d // 2)
        start = 2 * window
        found = observed(tuples, d=d, bitmaps=512).chances(start)
        true, sure = frequencies(tuples, start, d)
        known = sure > window / 20  # few common objects are below the noise, and another row speaks for theirs
        assert known.sum() > d
        assert np.abs(found - true)[known].max() < 0.25
        assert np.sqrt(np.mean((found - true)[known] ** 2)) < 0.1

    def test_more_streams_are_rarely_common_to_more_objects(self):
        tuples = streams.correlated(5_000, 5, seed=1)
        found = observed(tuples, d=5).chances(4_000)
        assert found.shape == (32, 5)
        assert ((found >= 0) & (found <= 1)).all()
        for mask in range(32):
            assert (found[mask][[stream for stream in range(5) if mask >> stream & 1]] == 1).all()

    def test_streams_that_are_the_same_are_known_to_be(self):
        codes = np.arange(1_000)
        sketch = Sketches(3)
        for stream, mine in enumerate((codes, codes, codes + 10_000)):
            sketch.observe(np.full(1_000, stream), mine, codes)
        found = sketch.chances(0)
        assert found[0b001, 1] == found[0b010, 0] == 1.0
        assert found[0b011, 2] < 0.2
        assert found[0b001, 2] < 0.2

    def test_a_set_of_streams_with_nothing_in_common_speaks_by_a_smaller_one(self):
        codes = np.arange(1_000)
        sketch = Sketches(3)
        for stream, mine in enumerate((codes, codes + 10_000, codes)):
            sketch.observe(np.full(1_000, stream), mine, codes)
        found = sketch.chances(0)
        assert found[0b011, 2] in (found[0b001, 2], found[0b010, 2])

    def test_nothing_seen(self):
        assert Sketches(2).chances(0).tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]

    def test_many_streams_go_without_a_table(self):
        tuples = streams.correlated(24_000, 12, seed=6, rho=0.8, recent=500)
        sketch = observed(tuples, d=12, bitmaps=512)
        with pytest.raises(sb.InvalidInputError, match="12 streams"):
            sketch.chances(12_000)
        true, sure = frequencies(tuples, 12_000, 12)
        for seen in ([0], [3, 7]):
            mask = sum(1 << stream for stream in seen)
            assert sure[mask] > 100
            found = sketch.chances_given(seen, 12_000)
            assert (found[seen] == 1).all()
            assert np.abs(found - true[mask]).mean() < 0.12
        assert sketch.chances_given(range(11), 12_000).shape == (12,)

    def test_the_table_and_single_sets_agree(self):
        tuples = streams.correlated(4_000, 3, seed=6)
        sketch = observed(tuples, d=3)
        np.testing.assert_array_equal(sketch.chances_given([0, 2], 3_000), sketch.chances(3_000)[0b101])

    def test_pairs_are_the_mean_of_all_chances_from_one_stream_to_another(self):
        tuples = streams.correlated(5_000, 3, seed=6)
        sketch = observed(tuples, d=3)
        starts = np.array([2_000, 4_000, 4_900, 5_000])
        found = sketch.pairs(starts)
        for start, chance in zip(starts.tolist(), found.tolist(), strict=True):
            single = [sketch.distinct(start, [stream]) for stream in range(3)]
            common = sum(single[i] + single[j] - sketch.distinct(start, [i, j]) for i, j in ((0, 1), (0, 2), (1, 2)))
            assert chance == pytest.approx(max(0.0, common / max(sum(single), 1)), abs=1e-12)
        assert found[0] > 0.2
        assert found[-1] == 0.0

    def test_what_is_remembered_is_forgotten_in_time(self):
        sketch = Sketches(2)
        codes = np.arange(500)
        sketch.observe(np.zeros(500, np.int64), codes, codes)
        assert sketch.chances(0)[1, 1] == 0
        sketch.observe(np.ones(500, np.int64), codes, codes + 500)
        assert sketch.chances(0)[1, 1] == 1
        assert sketch.chances(0)[2, 0] == 1
        assert sketch.chances(500)[2, 0] == 0


class TestAms:
    @pytest.mark.parametrize("counts", [[1] * 800, [3] * 200, [1] * 400 + [10] * 40, [400] + [1] * 200])
    def test_near_the_size_biased_mean_count(self, counts):
        counts = np.array(counts)
        true = (counts**2).sum() / counts.sum()
        rng = np.random.default_rng(5)
        found = []
        for _ in range(100):
            codes = rng.permutation(np.repeat(rng.integers(0, 2**62, counts.size), counts))
            sketch = AmsSketches(1, size=codes.size)
            sketch.observe(np.zeros(codes.size, np.int64), codes, np.arange(codes.size))
            found.append(sketch.reoccurrences(0)[0])
        found = np.array(found)
        assert abs(found.mean() - true) < 0.1 * true
        assert np.sqrt(np.mean((found - true) ** 2)) < math.sqrt(2 / 64) * true

    def test_expired_panes_stop_counting(self):
        sketch = AmsSketches(2, size=800, width=256)
        often, once = np.zeros(800, np.int64), np.arange(1, 801)
        sketch.observe(np.zeros(800, np.int64), often, np.arange(800))
        assert sketch.reoccurrences(0)[0] == 800
        sketch.observe(np.zeros(800, np.int64), once, np.arange(800, 1_600))
        assert sketch.reoccurrences(800)[0] < 1.5
        assert sketch.reoccurrences(800)[1] == 1.0

    def test_a_pane_that_the_window_cuts_counts_in_whole(self):
        sketch = AmsSketches(1, size=800)
        sketch.observe(np.zeros(200, np.int64), np.zeros(200, np.int64), np.arange(200))
        assert sketch.reoccurrences(99)[0] == 200
        assert sketch.reoccurrences(100)[0] == sketch.reoccurrences(199)[0] == 100

    def test_between_once_and_all(self):
        sketch = AmsSketches(1, size=100, width=1, rows=1)
        sketch.observe(np.zeros(50, np.int64), np.arange(50), np.arange(50))
        assert 1 <= sketch.reoccurrences(0)[0] <= 50

    def test_negative_positions(self):
        sketch = AmsSketches(1, size=80)
        sketch.observe(np.zeros(40, np.int64), np.zeros(40, np.int64), np.arange(-20, 20))
        assert sketch.reoccurrences(-20)[0] == 40
        assert sketch.reoccurrences(0)[0] == 20


def test_memory_is_what_is_stated():
    assert Sketches(3, bitmaps=64, levels=24).bytes == 3 * 64 * 24 * 8
    assert AmsSketches(3, size=10**6, panes=8, rows=3, width=64).bytes == 9 * 3 * (3 * 64 + 1) * 8 + 9 * 8


def test_a_resumed_sketch_goes_on_as_the_first():
    tuples = streams.correlated(2_000, 3, seed=9, occurrences=3)
    half = np.arange(2_000) < 1_000
    for make, ask in (
        (lambda: Sketches(3), Sketches.chances),
        (lambda: AmsSketches(3, size=700), AmsSketches.reoccurrences),
    ):
        first, second = make(), make()
        first.observe(tuples.streams[half], tuples.objects[half], np.flatnonzero(half))
        saved = first.state()
        first.observe(tuples.streams[~half], tuples.objects[~half], np.flatnonzero(~half))
        second.load(decode(encode(saved)))
        second.observe(tuples.streams[~half], tuples.objects[~half], np.flatnonzero(~half))
        np.testing.assert_array_equal(ask(first, 1_400), ask(second, 1_400))


@pytest.mark.parametrize("wrong", [{"bitmaps": 48}, {"bitmaps": 0}, {"levels": 0}, {"streams": 0}])
def test_impossible_sketches_are_refused(wrong):
    with pytest.raises(sb.InvalidInputError, match=next(iter(wrong))):
        Sketches(**{"streams": 2, **wrong})


@pytest.mark.parametrize("wrong", [{"rows": 5}, {"width": 48}, {"size": 0}, {"panes": 0}])
def test_impossible_ams_sketches_are_refused(wrong):
    with pytest.raises(sb.InvalidInputError, match=next(iter(wrong))):
        AmsSketches(**{"streams": 2, "size": 10, **wrong})


def test_mixed_bits_look_drawn_by_lot():
    bits = mixed(np.arange(4_096))
    assert np.unique(bits).size == 4_096
    for bit in range(64):
        assert 0.45 < (bits >> bit & 1).mean() < 0.55


def check_figures():
    """Small figures that must come out the same compiled or not; run by the subprocess below as well."""
    tuples = streams.correlated(300, 3, seed=1, occurrences=2)
    chances = observed(tuples, d=3).chances(100)
    often = observed(tuples, sketch=AmsSketches(3, size=200)).reoccurrences(100)
    return [float(value).hex() for value in (*chances.ravel(), *often)]


def test_same_figures_without_the_compiler():
    told = without_compiler("from tests.incomplete.test_sketches import check_figures; print(*check_figures())")
    plain = [float.fromhex(text) for text in told.split()]
    np.testing.assert_allclose(plain, [float.fromhex(text) for text in check_figures()], rtol=1e-12)
