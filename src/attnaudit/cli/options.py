"""The options that commands share: names, types and help, in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CorpusName = Annotated[
    str,
    typer.Argument(
        metavar="CORPUS", show_default=False,
        help="A registered name (see attnaudit corpora list), a csv, tsv, jsonl or parquet file (.gz too), a folder with train, test and "
        "perhaps dev files, or texts of our own grammar: planted-decisive, planted-negation, planted-conjunction, planted-prior, "
        "planted-question.",
    ),
]  # fmt: skip
PairsName = Annotated[
    str,
    typer.Argument(
        metavar="CORPUS", show_default=False,
        help="A registered parallel corpus (multi30k_en_de, deceptive_en_de), a folder of pairs, or sequences of our own making: "
        "planted-copy, planted-reverse, planted-bigram_flip.",
    ),
]  # fmt: skip
TracePath = Annotated[
    Path, typer.Argument(metavar="TRACE", show_default=False, help="A run directory, a folder of trace shards, or one Parquet file.")
]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", show_default=False, help="Run directories.")]
StudyCorpus = Annotated[
    str,
    typer.Argument(
        metavar="CORPUS", show_default=False,
        help="As for attnaudit run: a registered name, a file, a folder with train and test files, or planted-decisive, planted-negation, "
        "planted-conjunction, planted-prior, planted-question. For dynamics and deceive also as for attnaudit translate: multi30k_en_de, "
        "deceptive_en_de, a folder of pairs, or planted-copy, planted-reverse, planted-bigram_flip. For copying permutations, distinct "
        "or iid.",
    ),
]  # fmt: skip
StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", show_default=False, help="uniform, seeds, guide, adversary, deceive, dynamics or copying.")
]
Encoder = Annotated[str, typer.Option("--encoder", help="bilstm, bigru, cnn, average or none.")]
Attention = Annotated[str, typer.Option("--attention", help="additive or dot.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of the split, the word vectors, the model and the training.")]
Preset = Annotated[
    str,
    typer.Option(
        "--preset",
        help="Sizes and training: paper, of Jain & Wallace 2019; code2019, of their code; flan and han, of the flat and the hierarchical "
        "network of Serrano & Smith 2019.",
    ),
]
StudyPreset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        show_default=False,
        help="Sizes and training: those of attnaudit run (paper), of translators those of attnaudit translate (small).",
    ),
]
Vectors = Annotated[
    str | None,
    typer.Option(
        "--vectors", metavar="SOURCE", show_default=False,
        help="corpus (word2vec of the train split), random, or a GloVe or fastText text file; default: corpus, or the corpus's own choice.",
    ),
]  # fmt: skip
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Where registered corpora lie; else $ATTNAUDIT_DATA, else the user's cache.")
]
TextColumn = Annotated[str, typer.Option("--text-column", help="The column that holds the text.")]
LabelColumn = Annotated[str, typer.Option("--label-column", help="The column that holds the label.")]
QuestionColumn = Annotated[
    str | None, typer.Option("--question-column", help="The column that holds the question, or the hypothesis, that goes with the text.")
]
RationaleColumn = Annotated[
    str | None,
    typer.Option("--rationale-column", help="The column with [start, stop] characters of the text known to matter (jsonl, parquet)."),
]
OnBadRow = Annotated[str, typer.Option("--on-bad-row", help="error: stop at the first bad row; skip: leave it out and list it.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", min=1, help="Cut texts to this many tokens.")]
Epochs = Annotated[int | None, typer.Option("--epochs", min=1, help="The same as --set training.epochs=N.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any setting, for example training.epochs=4 or adversary.method=relaxed; repeatable."),
]
ExperimentSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of an experiment, for example adversary.epsilon=0.05; repeatable."),
]
Experiments = Annotated[
    list[str] | None,
    typer.Option("--experiment", metavar="NAME", help="Just this experiment; repeatable. By default all that the trace allows."),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to write.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")]
