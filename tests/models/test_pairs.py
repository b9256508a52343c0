"""A translator's passes and traces against the naive way, a pair, a token and a position at a time."""

import copy
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from attnaudit.core import InputError
from attnaudit.corpora.corpus import Pairs
from attnaudit.corpora.prepare.vocabulary import BOS, EOS, PAD, UNK, UNKNOWN
from attnaudit.experiments import audit
from attnaudit.experiments.alignment import Alignment, dictionary, dictionary_rows
from attnaudit.experiments.rows import is_correct
from attnaudit.models.presets import PairSettings
from attnaudit.models.translator import Translator
from attnaudit.trace import concatenate
from attnaudit.tracing.pairs import collect_pairs
from attnaudit.tracing.settings import PairCollectSettings
from attnaudit.training.loop import TrainingSplit, minimise
from attnaudit.training.pairs import deception_penalty, decode, teacher_forced
from attnaudit.training.settings import TrainingSettings
from tests.oracles.pairs import gradient_of_gold, greedy, leave_one_out, relevance, weighted
from tests.pairs import reversed_pairs, small_translator

KINDS = [
    {"attention": "bilinear"},
    {"attention": "additive"},
    {"attention": "bilinear", "heads": 3},
    {"layers": 2},
]


def traced(translator, rows=9, pairs=None, **settings):
    pairs = pairs or reversed_pairs(rows, seed=3)
    how = PairCollectSettings(**settings)
    return concatenate(list(collect_pairs(translator, pairs, "test", how)))


def place_of(trace, row):
    """Instance, position of the gold token and head of a row."""
    head = trace.array("head")[row] if trace.has("head") else 0
    return int(trace.instance[row]), int(trace.array("query")[row]), int(head)


def of_one_head(trace):
    heads = [place_of(trace, row)[2] for row in range(len(trace))]
    return trace.take(np.flatnonzero(np.array(heads) == 0))


def one_pair(translator, pairs, instance):
    return translator.inputs(pairs).batch(np.array([instance]))


@pytest.fixture(params=KINDS, ids=lambda kind: "-".join(map(str, kind.values())))
def translator(request):
    return small_translator(reversed_pairs(60), **request.param)


@pytest.fixture(params=[0, 128], ids=["tail", "logits"])
def few(request, monkeypatch):
    """Readouts of both kinds: of a large and of a small vocabulary."""
    monkeypatch.setattr("attnaudit.tracing.pairs.FEW", request.param)


@pytest.mark.usefixtures("few")
def test_trace_against_the_naive_way(translator):
    """Attention, relevance, gradient and leave-one-out of every gold token, and a readout that tells any other attention's output."""
    pairs = reversed_pairs(4, seed=5)
    trace, model = traced(translator, pairs=pairs), translator.model
    random = np.random.default_rng(0)
    for row in range(len(trace)):
        instance, at, head = place_of(trace, row)
        one = one_pair(translator, pairs, instance)
        if head == 0:
            without = leave_one_out(model, one, at)  # which is of no head
        expected = {
            "alpha": model(one).alpha[0, head, at].detach(),
            "importance_relevance": relevance(model, one, at, head),
            "loo": without,
        }
        if instance < 2:
            expected["gradient"] = gradient_of_gold(model, one, at)
        for name, values in expected.items():
            np.testing.assert_allclose(trace.ragged(name)[row], values, rtol=1e-3, atol=1e-6)
        other = random.dirichlet(np.ones(len(trace.tokens(row))))
        rows = np.array([row])
        mine = trace.readout.take(rows)(trace.alpha.take(rows).with_values(other))[0]
        assert np.abs(mine - weighted(model, one, at, head, other)).sum() < 1e-4


def test_rows_are_gold_tokens(translator):
    pairs, trace = reversed_pairs(9, seed=3), traced(translator)
    label = trace.array("label")
    assert [trace.class_names[k] for k in label] == trace.table["gold"].to_list()
    loss, accuracy = teacher_forced(translator.model, translator.inputs(pairs))
    one = of_one_head(trace)
    gold = one.array("label")
    assert (one.predicted == gold).mean() == pytest.approx(accuracy)
    assert -np.log(one.prediction[np.arange(len(gold)), gold]).mean() == pytest.approx(loss)
    for row in range(len(trace)):
        instance, at, _ = place_of(trace, row)
        source, target = pairs.source[instance].split(), pairs.target[instance].split()
        assert trace.tokens(row) == source
        assert trace.cell("gold", row) == [*target, "<eos>"][at]
        aligned = [place == len(source) - 1 - at for place in range(len(source))]
        assert trace.cell("rationale", row) == (aligned if at < len(target) else None)


def test_shards_and_order_do_not_matter(translator, monkeypatch):
    whole = traced(translator, 5)
    monkeypatch.setattr("attnaudit.tracing.pairs.SHARD_PAIRS", 2)
    monkeypatch.setattr("attnaudit.tracing.pairs.BUDGET", 3)
    monkeypatch.setattr("attnaudit.tracing.pairs.CELLS", 10)
    parts = traced(translator, 5)
    assert parts.instance.tolist() == whole.instance.tolist()
    for name in ("alpha", "importance_relevance", "gradient", "loo", "readout"):
        np.testing.assert_allclose(
            parts.ragged(name).values, whole.ragged(name).values, rtol=1e-4, atol=1e-6
        )


def test_a_prediction_is_right_where_the_model_is(translator):
    """A gold token that the vocabulary lacks is never right."""
    pairs = reversed_pairs(12, words=16, seed=3)  # four more than train has
    trace = traced(translator, pairs=pairs)
    one = of_one_head(trace)
    with torch.no_grad():
        translator.model.output.bias[UNK] = 1e3  # the model would write nothing else
        assert teacher_forced(translator.model, translator.inputs(pairs))[1] == 0.0
        assert UNKNOWN in trace.table["gold"].to_list()
        always = traced(translator, pairs=pairs)
        assert not is_correct(always).any()
        translator.model.output.bias[UNK] = -1e3
    never = traced(translator, pairs=pairs)
    assert is_correct(never).mean() == pytest.approx(
        teacher_forced(translator.model, translator.inputs(pairs))[1]
    )
    assert 0 < is_correct(one).mean() < 1


@pytest.mark.usefixtures("few")
def test_nearly_the_same_output_is_so_of_every_word(translator):
    """What the adversary finds is within ε for the model itself, although few words stay within it that easily."""
    pairs = reversed_pairs(4, seed=5)
    trace = traced(translator, pairs=pairs)
    trace = trace.take(np.arange(0, len(trace), 5))
    found = audit(trace, "adversary")["adversary"].table
    assert (found["emax_jsd"] > 0.1).any()
    for row, alpha in enumerate(found["alpha"].to_list()):
        instance, at, head = place_of(trace, row)
        one = one_pair(translator, pairs, instance)
        own, other = (
            weighted(translator.model, one, at, head, np.asarray(weights, np.float64))
            for weights in (trace.alpha[row], alpha)
        )
        distance = 0.5 * np.abs(own - other).sum()
        assert distance == pytest.approx(found["delta_y"][row], abs=1e-4)
        assert distance <= 0.01 + 1e-4


def test_settings_and_pairs_that_do_not_fit_are_refused():
    translator, foreign = small_translator(reversed_pairs(60)), reversed_pairs(5)
    swapped = Pairs(foreign.instance, foreign.target, foreign.source)
    with pytest.raises(InputError, match="no source word of 5 pairs is in the vocabulary of train"):
        translator.inputs(swapped, "test split")
    with pytest.raises(InputError, match="a model with attention"):
        traced(small_translator(reversed_pairs(60), attention="none"))


def test_greedy_decoding_against_the_naive_way(translator):
    inputs = translator.inputs(reversed_pairs(6, seed=7))
    written = decode(translator.model, inputs, beam=1)
    assert written == [greedy(translator.model, ids) for ids in inputs.source]
    assert not {PAD, UNK, BOS, EOS} & {number for row in written for number in row}


def test_a_wider_beam_finds_no_worse_on_average(translator):
    inputs = translator.inputs(reversed_pairs(15, seed=7))

    def score(beam):
        total = []
        for ids, row in zip(inputs.source, decode(translator.model, inputs, beam), strict=True):
            before = torch.tensor([[BOS, *row]])
            logits = translator.model.logits(
                translator.model.write(torch.tensor(ids)[None], before)
            ).clone()
            logits[..., [PAD, UNK, BOS]] = -torch.inf
            gold = torch.tensor([[*row, EOS]])
            total.append(float(torch.log_softmax(logits, -1).gather(-1, gold[..., None]).mean()))
        return float(np.mean(total))

    with torch.no_grad():
        assert score(8) >= score(1)


def test_decoding_alone_is_as_in_a_batch(translator):
    pairs = reversed_pairs(6, seed=7)
    whole = decode(translator.model, translator.inputs(pairs), beam=3)
    alone = [
        decode(translator.model, translator.inputs(pairs.take(np.array([row]))), beam=3)[0]
        for row in range(6)
    ]
    assert whole == alone


def test_the_decoder_reads_what_stands_before_each_gold_token():
    """BOS and the target, so that training starts from what decoding starts from; the gold tokens are the target and EOS."""
    inputs = small_translator(reversed_pairs(60)).inputs(reversed_pairs(30, seed=2))
    rows = max(inputs.batches_by_length(1000), key=len)
    batch = inputs.batch(rows)
    for k, row in enumerate(rows.tolist()):
        target = inputs.target[row].tolist()
        padding = [PAD] * (batch.gold.shape[1] - len(target) - 1)
        assert batch.before[k].tolist() == [BOS, *target, *padding]
        assert batch.gold[k].tolist() == [*target, EOS, *padding]


@pytest.mark.parametrize("shares", [None, (0.0, 0.5, 0.9, 1.0)])
def test_deceptive_penalty_against_the_naive_sum(translator, shares):
    """Of the links of two pairs, and with tokens aligned with none, some, most or all of their source."""
    inputs = translator.inputs(reversed_pairs(30, seed=2))
    batches = [rows for rows in inputs.batches_by_length(1000) if len(rows) > 1]
    batch = inputs.batch(max(batches, key=lambda rows: inputs.source.lengths[rows[0]])[:2])
    alpha = translator.model(batch).alpha.detach()
    assert batch.aligned is not None
    if shares:
        drawn = torch.rand(batch.aligned.shape, generator=torch.Generator().manual_seed(0))
        share = torch.tensor(shares).repeat(drawn.shape[1])[: drawn.shape[1], None]
        batch = replace(batch, aligned=(drawn < share).float())
    assert batch.aligned is not None
    total, count = 0.0, 0
    for b in range(len(batch.source)):
        for t in range(int(batch.written[b].sum())):
            marks = batch.aligned[b, t] > 0
            count += 1
            if not marks.all():
                total += -float(torch.log(1.0 - alpha[b].mean(dim=0)[t][marks].sum()))
    assert float(deception_penalty(alpha, batch)) == pytest.approx(total / count)


def test_weight_decay_acts_on_every_weight(translator):
    """Where the loss has no slope the decay alone moves weights."""
    model, inputs = copy.deepcopy(translator.model), translator.inputs(reversed_pairs(9))
    before = {name: values.detach().clone() for name, values in model.named_parameters()}
    flat = TrainingSplit(
        inputs,
        lambda model, *_: 0.0 * torch.stack([p.sum() for p in model.parameters()]).sum(),
        lambda model, select: (0.5, 0.5),
    )
    minimise(model, flat, flat, TrainingSettings(epochs=1, weight_decay=0.1))
    assert [
        name
        for name, values in model.named_parameters()
        if before[name].any() and torch.equal(values, before[name])
    ] == []


def naive_links(translator, pairs):
    """A pair and a link at a time: the pieces of a word are as many, and begin where, as the words before it cut by themselves say."""
    assert pairs.links is not None
    found = set()
    for row, i, j in pairs.links.T.tolist():
        sides = []
        for text, word in ((pairs.source[row], i), (pairs.target[row], j)):
            words = text.split()
            start = sum(len(translator.units([before])[0]) for before in words[:word])
            sides.append(range(start, start + len(translator.units([words[word]])[0])))
        found |= {(row, s, t) for s in sides[0] for t in sides[1]}
    return found


def test_links_of_words_that_pieces_part_where_white_space_does_not():
    odd = ["don´t", "c\u200bd", "a¨", "½", "ﷺ", "\u200b", "▁", "a▁b", "plain", "words"]
    random = np.random.default_rng(0)
    sources = tuple(" ".join(["start", *random.choice(odd, 5)]) for _ in range(60))
    targets = tuple(" ".join([*source.split()[::-1]]) for source in sources)
    links = np.array([(row, i, 5 - i) for row in range(60) for i in range(6)]).T
    pairs = Pairs(np.arange(60) + 100, sources, targets, links)
    translator = Translator.learn(PairSettings(embedding=4, hidden=4), pairs, "pieces", 200, 1, 0)
    inputs = translator.inputs(pairs)
    assert inputs.links is not None
    links = np.column_stack([inputs.links.row_of_value, inputs.links.values]).tolist()
    assert set(map(tuple, links)) == naive_links(translator, pairs)
    assert list(inputs.unlinked) == [
        100 + row for row, source in enumerate(sources) if {"\u200b", "▁"} & set(source.split())
    ]


def test_alignment_by_hand():
    trace = traced(small_translator(reversed_pairs(60)))
    table = Alignment()(trace)
    hits, marks = table["hit_alpha"].to_list(), trace.table["rationale"].to_list()
    for row, mark in enumerate(marks):
        assert hits[row] == (None if mark is None else mark[int(np.argmax(trace.alpha[row]))])
    known, aligned = [hit for hit in hits if hit is not None], sum(map(sum, filter(None, marks)))
    summary = {row["measure"]: row for row in Alignment().summarise(table).to_dicts()}
    assert summary["precision_at_1_alpha"]["value"] == pytest.approx(np.mean(known))
    error = summary["aer_alpha"]
    assert error["value"] == pytest.approx(1.0 - 2.0 * sum(known) / (len(known) + aligned))
    assert error["low"] <= error["value"] <= error["high"]
    assert error["n"] == len(known)
    assert error["undefined"] == len(marks) - len(known) > 0


def test_alignment_of_attention_is_compared_with_every_other_score():
    trace = traced(small_translator(reversed_pairs(60)))
    summary = Alignment().summarise(Alignment()(trace))
    value = dict(summary.select("measure", "value").iter_rows())
    for kind in ("precision_at_1", "aer"):
        scores = {name for name in value if name.startswith(kind) and "_minus_" not in name}
        others = scores - {f"{kind}_alpha"}
        paired = {f"{kind}_alpha_minus_{name}": name for name in others}
        assert {name for name in value if name.startswith(f"{kind}_alpha_minus_")} == set(paired)
        assert others
        for name, other in paired.items():
            assert value[name] == pytest.approx(value[f"{kind}_alpha"] - value[other])


def dictionary_of(translator, pairs, column):
    table = dictionary(traced(translator, pairs=pairs), least=1)
    return {(row["source"], row["target"]): row[column] for row in table.to_dicts()}


def test_a_dictionary_counts_texts_and_not_heads_or_places():
    """A pair of words in two texts is there twice, whatever stands twice and however many heads look; unknown tokens are left out."""
    translator = small_translator(reversed_pairs(60), heads=3)
    pairs = Pairs(np.arange(2), ("a1 a1 a2", "a3 a1"), ("b2 b1 b1 b99", "b1 b3"))
    counts = dictionary_of(translator, pairs, "count")
    assert [counts["a1", "b1"], counts["a2", "b1"], counts["a3", "b3"]] == [2, 1, 1]
    assert {target for _, target in counts} == {"b1", "b2", "b3", "<eos>"}


def test_a_word_that_comes_twice_is_aligned_with_its_translation_wherever_it_stands():
    """Each b1 is linked with one of the two a1, and is so in both of its places; b2 in its one place with a2."""
    links = np.array([[0, 0, 0], [0, 1, 2], [2, 1, 0]])
    pairs = Pairs(np.arange(1), ("a1 a2 a1",), ("b1 b2 b1",), links)
    aligned = dictionary_of(small_translator(reversed_pairs(60)), pairs, "aligned")
    expected = {"a1": {"b1": 1, "b2": 0, "<eos>": None}, "a2": {"b1": 0, "b2": 1, "<eos>": None}}
    assert aligned == {(a, b): mark for a, row in expected.items() for b, mark in row.items()}


def test_how_many_of_the_strongest_pairs_are_translations():
    """Three are aligned in half of their places; by relevance the first and the third of the four known are, by attention all three."""
    pairs = pl.DataFrame({
        "source": list("abcde"), "target": list("ABCDE"), "count": [5] * 5, "relevance": [9.0, 8.0, 7.0, 6.0, 5.0],
        "alpha": [0.9, 0.1, 0.8, 1.0, 0.7], "aligned": [1.0, 0.4, 0.5, None, 0.9],
    })  # fmt: skip
    relevance, alpha = dictionary_rows(pairs)
    assert (relevance["measure"], relevance["value"], relevance["n"]) == (
        "dictionary_relevance",
        pytest.approx(2 / 3),
        3,
    )
    assert (alpha["measure"], alpha["value"], alpha["high"]) == ("dictionary_alpha", 1.0, 1.0)
    assert 0 < relevance["low"] < 2 / 3 < relevance["high"] < 1
    assert dictionary_rows(pairs.with_columns(aligned=pl.lit(0.1))) == []
    assert dictionary_rows(pairs.with_columns(aligned=pl.lit(None, pl.Float64))) == []


def test_dictionary_by_hand():
    trace = traced(small_translator(reversed_pairs(60)), rows=30)
    table = dictionary(trace, least=3)
    first = table.row(0, named=True)
    found, instances = [], set()
    for row, gold in enumerate(trace.table["gold"]):
        values = trace.ragged("importance_relevance")[row].astype(np.float64)
        for value, token in zip(values - values.mean(), trace.tokens(row), strict=True):
            if (token, gold) == (first["source"], first["target"]):
                found.append(value)
                instances.add(trace.instance[row])
    assert first["count"] == len(instances) >= 3
    assert first["relevance"] == pytest.approx(np.mean(found))
    assert table["relevance"].is_sorted(descending=True)
