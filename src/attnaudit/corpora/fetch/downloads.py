"""The upstream addresses of corpora, with the checksums that others have published for them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Download:
    """A file of a corpus at its upstream address.

    ``sha256`` is the published or known checksum (None: none is known, and what comes is recorded), ``size`` its bytes, about.
    ``path`` is where it goes within the corpus's folder; an archive (zip, tar, tar.gz) is unpacked there instead.
    """

    url: str
    sha256: str | None = None
    size: int | None = None
    path: str = ""


# Sources of the checksums: the recorded download_checksums of huggingface/datasets (datasets/<name>/dataset_infos.json at commit
# 040102f1), scikit-learn for 20 Newsgroups, facebookresearch/ParlAI for CNN. None: no one was found to have published one.
_TREES = Download(
    "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",
    "5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc",
    789_539,
)
_BABI = Download(
    "http://www.thespermwhale.com/jaseweston/babi/tasks_1-20_v1-2.tar.gz",
    "0364ebde659f14d11bc21744516c5ec49d3d06cb692733f66680771244998898",
    15_719_851,
)
_AG = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv"
_AG_NEWS = (
    Download(f"{_AG}/train.csv", "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e", 29_470_338, "train.csv"),
    Download(f"{_AG}/test.csv", "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699", 1_857_427, "test.csv"),
)
_ZHANG = "https://s3.amazonaws.com/fast-ai-nlp"
_PANG = "http://www.cs.cornell.edu/people/pabo/movie-review-data"
_REVIEWS = Download(
    "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
    84_125_825,
)

DOWNLOADS: dict[str, tuple[Download, ...]] = {
    "sst": (_TREES,),
    "sst5": (_TREES,),
    "imdb": (_REVIEWS,),
    "imdb_stars": (_REVIEWS,),
    "20news_sports": (
        Download(
            "https://ndownloader.figshare.com/files/5975967",
            "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
        ),
    ),
    "ag_news": _AG_NEWS,
    "ag_news4": _AG_NEWS,
    "babi1": (_BABI,),
    "babi2": (_BABI,),
    "babi3": (_BABI,),
    "cnn": (
        Download(
            "https://drive.usercontent.google.com/download?id=0BwmD_VLjROrfTTljRDVZMFJnVWM&export=download&confirm=t",
            "9405beb90c9267e7769c86fa42720b7e479bcf38c64217c0d3f456ce8cd122ce",
        ),
    ),
    "snli": (
        Download(
            "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
            "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
            94_550_081,
        ),
    ),
    "mr": (
        Download(
            "https://storage.googleapis.com/seldon-datasets/sentence_polarity_v1/rt-polaritydata.tar.gz",
            "a05befe52aafda71d458d188a1c54506a998b1308613ba76bbda2e5029409ce9",
            487_770,
        ),
    ),
    "subj": (Download(f"{_PANG}/rotten_imdb.tar.gz"),),
    "trec6": (
        Download(
            "https://cogcomp.seas.upenn.edu/Data/QA/QC/train_5500.label",
            "9e4c8bdcaffb96ed61041bd64b564183d52793a8e91d84fc3a8646885f466ec3",
            335_858,
            "train_5500.label",
        ),
        Download(
            "https://cogcomp.seas.upenn.edu/Data/QA/QC/TREC_10.label",
            "033f22c028c2bbba9ca682f68ffe204dc1aa6e1cf35dd6207f2d4ca67f0d0e8e",
            23_354,
            "TREC_10.label",
        ),
    ),
    "sms_spam": (
        Download(
            "https://archive.ics.uci.edu/ml/machine-learning-databases/00228/smsspamcollection.zip",
            "1587ea43e58e82b14ff1f5425c88e17f8496bfcdb67a583dbff9eefaf9963ce3",
            203_415,
        ),
    ),
    "sick_nli": (
        Download(
            "https://zenodo.org/record/2787612/files/SICK.zip?download=1",
            "da272af924399fc2de4889ed55383e38822c10d16c4a949a89d597d09a0b7912",
            217_584,
        ),
    ),
    "movies_rationales": (
        Download(
            "http://www.eraserbenchmark.com/zipped/movies.tar.gz",
            "66e18d4e6c9df9e9f5544572b0bfe92a39673f74ecbfc3859b46cedb2f5b2dee",
            3_899_487,
        ),
    ),
    "yelp": (
        Download(
            f"{_ZHANG}/yelp_review_full_csv.tgz",
            "56006b0a17a370f1e366504b1f2c3e3754e4a3dda17d3e718a885c552869a559",
            196_146_755,
        ),
    ),
    "yahoo": (
        Download(
            f"{_ZHANG}/yahoo_answers_csv.tgz",
            "2d4277855faf8b35259009425fa8f7fe1888b5644b47165508942d000f4c96ae",
            319_476_345,
        ),
    ),
    "amazon": (Download(f"{_ZHANG}/amazon_review_full_csv.tgz"),),
}
