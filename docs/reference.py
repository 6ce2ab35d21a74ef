"""The public names: what a program that uses gradlex writes or receives, each once, under its shortest import.

The pages in docs/api show them. Whatever else a layer exports is for the other layers, and may change without notice.
"""

NAMES: dict[str, tuple[str, ...]] = {
    "gradlex": (
        "train", "resume", "load", "Run", "Recipe", "Record", "Callback", "Population", "Candidate", "evolve", "Generation",
        "compare", "paper", "results", "Choice", "InputError", "RunError",
    ),
    "gradlex.selection": (
        "select_parents", "selection_probabilities", "selection_chances", "Chances", "group_means", "by_group", "Lexicase", "EpsilonLexicase",
        "BatchLexicase", "DownsampledLexicase", "InformedLexicase", "Dalex", "Plexicase", "Tournament", "Random",
        "make_selection", "SELECTIONS", "Selection", "CaseErrors", "TableErrors",
    ),
    "gradlex.tasks": (
        "Task", "Measure", "Classification", "Regression", "MultiLabel", "Custom", "make_task", "TASKS",
    ),
    "gradlex.data": ("prepare", "Parts", "crop", "flip", "crop_flip", "DATASETS"),
    "gradlex.models": ("build", "MODELS"),
    "gradlex.schedules": ("cosine", "linear", "constant", "SCHEDULES"),
    "gradlex.callbacks": ("Progress", "Logger", "TensorBoard", "WandB", "LOGGERS"),
    "gradlex.runs": ("Evaluation",),
    "gradlex.experiments": ("Arm", "Method", "METHODS", "published", "features", "save_features"),
    "gradlex.report": ("decide", "summary", "write_run_page", "write_experiment_page", "figure2"),
    "gradlex.integrations.sklearn": ("LexicaseClassifier", "LexicaseRegressor"),
    "gradlex.integrations.deap": ("select",),
    "gradlex.integrations.pymoo": ("LexicaseSelection",),
    "gradlex.integrations.gepa": ("LexicaseCandidateSelector",),
    "gradlex.randomness": ("stream",),
}  # fmt: skip
