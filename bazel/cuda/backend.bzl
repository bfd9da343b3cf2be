"""NO_GPU: what a test or a bench adds, at the end of its dependencies, that needs some backend and uses no GPU."""

NO_GPU = [
    "//actor_runtime/cuda:backend",
    "//actor_runtime/cuda/library:report",
]
