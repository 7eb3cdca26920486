"""What the words of a report mean and how it was tested; it stands at the end of page and Markdown."""

from __future__ import annotations

from fusion.statistics.coverage import FEWEST_PAIRS
from jobs.reporting.answer import MODEL_RULE, REGRET_RULE
from jobs.reporting.data import Report
from jobs.reporting.formats import TESTS
from jobs.reporting.tables import tested

LOSES = (
    "By label frequency: how many relevant labels of each text either of the two ranks among its "
    "first k, by a sign test over texts, which keeps the labels of a text together. By the number of labels, or "
    "of words, of a text: texts, by the paired t-test. All are Holm-corrected over the slices. Tenths of labels "
    f"with fewer than {FEWEST_PAIRS} pairs are joined with their neighbour. Words are counted where the judgements "
    "tell them."
)


def how_to_read(report: Report) -> dict[str, str]:
    """What the words mean and how it was tested."""
    one = [dataset for dataset in report.datasets if len(dataset.folds) == 1 and tested(dataset)]
    decides = f"The bold face is decided by the {TESTS[report.test]}, at {report.alpha:g}."
    if one:
        names = ", ".join(dataset.name for dataset in one)
        decides += f" {names}: one fold leaves nothing for a test over folds, so the tests over texts decide."
    others = "; and the ".join(meaning for test, meaning in TESTS.items() if test != report.test)
    recommendations = [dataset.recommendation for dataset in report.datasets if dataset.recommendation]
    rules = []
    if any(not one.deployed for one in recommendations):
        rule = f"{REGRET_RULE[0].upper()}{REGRET_RULE[1:]}"
        rules.append(f"{rule}. Only the paper's protocol counts (ideal ranking over all labels of a text).")
    if any(one.deployed for one in recommendations):
        rules.append(f"{MODEL_RULE[0].upper()}{MODEL_RULE[1:]}.")
    return {
        **({"Recommended": " ".join(rules)} if rules else {}),
        "Better, worse": "With several folds a gain is called better or worse only if the folds and the texts both say "
        "so; with one fold the texts decide. Gains stand with their 95% interval over the texts, which, unlike p "
        "over texts, is not corrected for the number of comparisons. Where only some of these find a difference, "
        "the verdict says that tests disagree, and which.",
        "Bold": f"{decides} Beside it stand the {others}. The test weighs a distance by how much it varies: a lower "
        "figure that varies may be bold where a higher one is not.",
        "Figures": "In percent: mean and, in brackets, standard deviation over the folds.",
        "Label groups": "Head labels are the most frequent ones, tail labels all the others; each group is ranked and "
        "measured on its own. All labels are fused as one list.",
        **({"Where it loses": LOSES} if recommendations else {}),
    }
