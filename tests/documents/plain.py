"""The messages of datasheets and reports that state nothing of how something was done: headings, columns, levels,
numbers of what is in a release, and advice.
"""

PLAIN = frozenset(
    {
        "Conger's kappa",
        "Mean pairwise kappa",
        "Motivation",
        "Nobody has written down why this release was made.",
        "It holds labels of the responses of the models below, under %(guidelines)s.",
        "Composition",
        (
            "An instance is one response of a model to a prompt, with a gold label for each criterion that was"
            " settled. Responses: %(rows)s; labels: %(labels)s; from %(datasets)s."
        ),
        "Different prompts: %(prompts)s.",
        (
            "Prompts and responses may offend, mislead or hold personal data, and a text that asks for something"
            " is not to be obeyed."
        ),
        "Collection",
        "Batches: %(names)s.",
        "Annotators",
        "Chance of selection",
        "Agreement",
        "Labels per response",
        "Adjudication",
        "Preprocessing",
        "Uses",
        (
            "It is fit for training and testing programs that judge responses as these labels do, and for"
            " comparing models on these prompts. Do not train on the test split, nor on any prompt that another"
            " release puts there: they are the same."
        ),
        (
            "A label says what the guideline calls the response, not whether the response is true or lawful;"
            " where annotators often disagree, a difference between models may be one between annotators. It is"
            " not fit for judging the people who annotated, nor for teaching a model the texts themselves."
        ),
        "Distribution",
        (
            "The rights in prompts and responses stay with their authors; what a model's maker allows and what"
            " the source of the prompts allows is to be looked up there."
        ),
        "Maintenance",
        "Datasheet of the gold release %(name)s",
        (
            "Mind the prompts that share a text with another one, but for case, width and white space:"
            " %(prompts)s, with %(texts)s different texts; texts that stand in more than one split: %(parted)s."
        ),
        "adjudicator",
        "training",
        "validation",
        "test",
        "page",
        "token",
        "page or token",
        "import",
        "Agreed",
        "Adjudicated",
        "Disputed still",
        "Open",
        "Withdrawn",
        "Split",
        "Prompts",
        "Responses",
        "Splits by prompt",
        "File",
        "Format",
        "Batch",
        "Annotations",
        "Decisions",
        "all together",
        "all",
        "Guideline",
        "Criterion",
        "Of",
        "Tasks",
        "Disputed",
        "Krippendorff's alpha",
        "Gwet's AC1",
        "Agreement of the annotators",
        "Dimension",
        "Model",
        "Language",
        "Where the label comes from",
        "Level",
        "Labels by criterion and level",
        "Subcomponent",
        "Annotators for each response",
        "Pairing",
        "Tolerance",
        "Labels and decisions by channel",
        "Submitted here",
        "Policy of the batches",
        "Adjudicators",
        "Tasks by state when the release was cut",
        "not recorded",
        "Labels",
        ", ",
        "%(n)s annotation wanted for each response",
        "%(n)s annotations wanted for each response",
        "Report",
        "Notes",
        "Annotation report: %(name)s",
        "Print or save as PDF",
        "To the release",
        "Protocol",
        "Software",
        "People",
        "Annotations by each, median",
        "%(median)s (from %(fewest)s to %(most)s)",
        "%(n)s s",
        "Disputes",
        "%(disputed)s of %(tasks)s responses, %(share)s",
        "Decided",
        "as the first annotator %(n)s",
        "as the second %(n)s",
        "as a further one %(n)s",
        "as none of them %(n)s",
        "Intra-rater agreement",
        "%(part)s of %(n)s, %(share)s",
        "Gold",
        "Splits",
        "Gold release {name}",
        "nominal",
        "ordinal",
        "interval",
        "Units",
        "Percent agreement",
        "Cohen's kappa",
        "Agreement between annotators, with 95% intervals",
        "all criteria pooled",
        "Disputed responses by dimension",
        "Share",
        "{value} cannot be chosen here; choose one of: {known}.",
    }
)
