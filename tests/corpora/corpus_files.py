"""Small files of every upstream layout, with texts of our own."""

import json
from itertools import product

PLACES = ("garden", "kitchen", "office")
PEOPLE = ("Anna", "Bert", "Carla")


def put(path, content, encoding="utf-8"):
    """Write a file, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def jsonl(path, objects):
    return put(path, "".join(json.dumps(found) + "\n" for found in objects))


def tree(words, label):
    return f"({label} " + " ".join(f"(2 {word})" for word in words.split()) + ")\n"


def write_trees(folder):
    for split in ("train", "dev", "test"):
        text = "".join(
            tree(f"number {word} of the {split} sentences here", label)
            for label, word in enumerate(("a", "b", "c", "d", "e"))
        )
        put(folder / f"{split}.txt", text * 2)


def stories(number, seed=0):
    """``number`` stories of four facts and two questions; each asks where one of two people is, who moved once or twice."""
    lines = []
    for story in range(number):
        one, other = PEOPLE[(story + seed) % 3], PEOPLE[(story + seed + 1) % 3]
        places = [PLACES[(story // 3 + step) % 3] for step in range(3)]
        lines += [
            f"1 {one} went to the {places[0]}.",
            f"2 {other} went to the {places[1]}.",
            f"3 Where is {one}? \t{places[0]}\t1",
            f"4 {one} walked to the {places[2]}.",
            f"5 {other} sat down.",
            f"6 Where is {one}? \t{places[2]}\t4",
        ]
    return "\n".join(lines) + "\n"


def write_babi(folder, train=30):
    put(folder / "qa1_some-facts_train.txt", stories(train))
    put(folder / "qa1_some-facts_test.txt", stories(9, 1))


def write_reviews(folder, number=20):
    for split in ("train", "test"):
        for group, word in (("neg", "poor"), ("pos", "fine")):
            for review in range(number):
                text = f"A {word} film of {split}, <br /><br />number {'so ' * review}long indeed it is."
                put(folder / split / group / f"{review}_{review % 10}.txt", text)


POST = """From: someone@example.org (Some One)
Subject: Re: the game of {row}

In article <1@example.org> another@example.org writes:
> what did you think of the {sport} game
I thought that {sport} game number {row} was rather long.
And caf\xe9 prices there, I tell you, are {many}high.

--
Some One
"""


def write_posts(folder):
    for split in ("train", "test"):
        for group in ("baseball", "hockey"):
            for row in range(10):
                many = "very " * (row + 10 * (split == "test"))
                path = f"20news-bydate-{split}/rec.sport.{group}/{100 + row}"
                put(folder / path, POST.format(sport=group, row=row, many=many), "latin-1")


def write_class_csv(folder, classes, fields, number=8):
    """Header-less files of a class from 1 and quoted texts."""
    for split in ("train", "test"):
        lines = ""
        for row, index in product(range(number), range(classes)):
            said = f'says ""{split}"", row {"so " * row}of {index}"'
            texts = (f',"field {field} {said}' for field in range(1, fields))
            lines += f'"{index + 1}"{"".join(texts)}\n'
        put(folder / f"{split}.csv", lines)


def write_cnn(folder):
    for split, number in (("training", 12), ("validation", 4), ("test", 4)):
        for row in range(number):
            one, other = f"@entity{row % 3}", f"@entity{(row + 1) % 3}"
            passage = f"( @entity9 ) {one} met {other}'s friend 20 times , said @entity{10 + row} ."
            question = f"@placeholder has a friend who met {other}"
            parts = (f"http://example.org/{row}", passage, question, one)
            names = f"{one}:Some One\n{other}:Another"
            put(folder / split / f"{row:04d}.question", "\n\n".join([*parts, names]))


def write_snli(folder):
    labels = ("entailment", "neutral", "contradiction", "-")
    for split in ("train", "dev", "test"):
        texts = [(f"A {split} man {'so ' * row}waits.", one) for row in range(6) for one in labels]
        found = [
            {"gold_label": label, "sentence1": text, "sentence2": f"He is {label}."}
            for text, label in texts
        ]
        jsonl(folder / f"snli_1.0_{split}.jsonl", found)


def sick_table(sets, split=""):
    """The columns of SICK: of the whole file with its sets, or of one split as SemEval distributed it."""
    more = "entailment_label\tSemEval_set" if sets else "entailment_judgment"
    lines = [f"pair_ID\tsentence_A\tsentence_B\t{more}"]
    for number, name in enumerate(("TRAIN", "TRIAL", "TEST")):
        for row, label in enumerate(("NEUTRAL", "ENTAILMENT", "CONTRADICTION") * 2):
            if sets or name == split:
                dog = f'A dog of "{name}" {"so " * row}runs'
                end = f"\t{name}" * bool(sets)
                lines.append(f"{10 * number + row}\t{dog}\tA cat sits\t{label}{end}")
    return "\n".join(lines) + "\n"


def review_text(word, row):
    return f"this is {'so ' * row}long .\nit is a {word} film ,\nsay i ."


def annotated(split):
    """Reviews whose deciding words are marked; the last of each class has none marked."""
    found = []
    for row in range(4):
        for label, word in (("NEG", "poor"), ("POS", "fine")):
            name = f"{split}_{label}_{row}.txt"
            at = review_text(word, row).split().index(word)
            mark = {"docid": name, "start_token": at, "end_token": at + 2, "text": f"{word} film"}
            made = {"annotation_id": name, "classification": label, "query": "What is it?"}
            found.append(made | {"evidences": [[mark]] * (row < 3)})
    return found


def write_movies(folder):
    for split, name in (("train", "train"), ("dev", "val"), ("test", "test")):
        found = annotated(split)
        jsonl(folder / f"{name}.jsonl", found)
        for row, annotation in enumerate(found):
            word = "poor" if annotation["classification"] == "NEG" else "fine"
            put(folder / "docs" / annotation["annotation_id"], review_text(word, row // 2))


def write_mimic(folder, admissions=60):
    """One admission for each patient; every third is diabetic, and anemias take turns."""
    notes = ['"ROW_ID","SUBJECT_ID","HADM_ID","CATEGORY","DESCRIPTION","TEXT"']
    codes = ['"ROW_ID","SUBJECT_ID","HADM_ID","SEQ_NUM","ICD9_CODE"']
    for row in range(admissions):
        subject, admission = 1000 + row, 200000 + row
        text = f"Admission of [**Last Name (un) {row}**]\n\nThe patient\twas {'very ' * (row % 7)}ill on the [**2101-1-{row}**], he said so."
        notes.append(f'{row},{subject},{admission},"Discharge summary","Report","{text}"')
        notes.append(f'{row},{subject},{admission},"Nursing","Report","a note of no interest"')
        codes.append(f'{row},{subject},{admission},1,"{"25000" if row % 3 == 0 else "25001"}"')
        codes.append(f'{row},{subject},{admission},2,"{("2851", "28521", "4019")[row % 3]}"')
    notes.append(f'9000,1000,{200000},"Discharge summary","Addendum","more of the same"')
    notes.append('9001,1000,,"Discharge summary","Report","an outpatient"')
    codes.append('9002,7,299999,1,"2851"')
    put(folder / "NOTEEVENTS.csv", "\n".join(notes) + "\n")
    put(folder / "DIAGNOSES_ICD.csv", "\n".join(codes) + "\n")
